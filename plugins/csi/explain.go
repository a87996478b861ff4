package csi

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/open-nomad/open-nomad/api/fault"
)

// fate is how far a call came.
type fate struct {
	sent, answered atomic.Bool
}

type fateKey struct{}

// watch notes in the [fate] of each call whether it was sent and whether the plugin itself answered it.
type watch struct{}

func (watch) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (watch) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (watch) HandleConn(context.Context, stats.ConnStats)                       {}

func (watch) HandleRPC(ctx context.Context, s stats.RPCStats) {
	f, ok := ctx.Value(fateKey{}).(*fate)
	if !ok {
		return
	}
	switch s.(type) {
	case *stats.OutHeader:
		f.sent.Store(true)
	case *stats.InTrailer:
		f.answered.Store(true)
	}
}

// explain makes a Call of the error of a call. It returns nil when the code means success.
func (c *Client) explain(rpc string, err error, f *fate) *fault.Call {
	st, _ := status.FromError(err)
	if st.Code() == codes.ResourceExhausted && strings.HasPrefix(st.Message(), "grpc: received message") {
		return tooLarge(rpc)
	}
	said := explained(rpc, st.Code(), c.plain(st.Message()))
	if said == nil {
		return nil
	}
	switch st.Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		if !f.sent.Load() {
			said.Verdict, said.Uncertain = fault.VerdictRetrySoon, false
		} else if st.Code() == codes.Unavailable && !f.answered.Load() {
			said.Verdict = fault.VerdictRetrySoon
		}
	}
	return said
}

// Texts of plugins are cut: they are recorded with every server. What is read of a text ends within a secret
// maybe, which is found only when it is whole; so the end is not used, for as long as a secret may be.
const (
	textMax   = 4 << 10
	readMax   = 64 << 10
	secretMax = 32 << 10
)

// plain is a text of the plugin without secrets and without what a terminal would obey. It keeps its lines.
// Secrets are looked for as they were sent, and again in what is left: bytes that are dropped may have parted one.
func (c *Client) plain(text string) string {
	partly := len(text) > readMax
	if partly {
		text = text[:readMax]
	}
	text = c.secrets.Text(text)
	if partly {
		text = text[:max(0, len(text)-secretMax)]
	}
	text = c.secrets.Text(strings.Map(printable, strings.ToValidUTF8(text, "")))
	if partly || len(text) > textMax {
		text = strings.ToValidUTF8(text[:min(len(text), textMax)], "") + "..."
	}
	return strings.TrimSpace(text)
}

// printable drops control characters except tabs and ends of lines.
func printable(r rune) rune {
	if r == '\n' || r == '\t' || !unicode.IsControl(r) {
		return r
	}
	return -1
}

const largeReply = "reply too large"

// tooLarge is the error for a reply beyond the limit of its call.
func tooLarge(rpc string) *fault.Call {
	c := hole(rpc, "more than may be received at once")
	c.Code = largeReply
	return c
}

func isTooLarge(err error) bool {
	var c *fault.Call
	return errors.As(err, &c) && c.Code == largeReply
}

// hole is the error for a reply that lacks what it must have. What the call did is not known.
func hole(rpc, what string) *fault.Call {
	c := &fault.Call{
		RPC: rpc, Code: "invalid reply", Text: "the plugin answered " + what,
		Verdict: fault.VerdictFinal, Class: fault.Internal,
	}
	if kindOf(rpc).changes() {
		c.Verdict, c.Uncertain = fault.VerdictUncertain, true
	}
	return c
}

// VerdictOf returns what to do about err: by the table for a plugin's reply, and by the class for
// other errors. It is empty for nil.
func VerdictOf(err error) fault.Verdict {
	var c *fault.Call
	switch {
	case err == nil:
		return ""
	case errors.As(err, &c):
		return c.Verdict
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fault.VerdictRetry
	case errors.Is(err, fault.Unavailable), errors.Is(err, fault.NotLeader), errors.Is(err, fault.Timeout):
		return fault.VerdictRetry
	case errors.Is(err, fault.Exhausted):
		return fault.VerdictLimit
	}
	return fault.VerdictFinal
}
