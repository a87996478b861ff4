package claim_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/volumes/claim"
)

var rewrite = flag.Bool("rewrite", false, "write the answers of transcripts as they are now")

// TestTranscripts replays testdata: blocks of commands, ----, and the answer.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { replay(t, file) })
	}
}

func replay(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{volume: &api.Volume{VolumeSpec: api.VolumeSpec{ID: "v", Namespace: "default", PluginID: "p"}}, attach: true}
	var out bytes.Buffer
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		commands, want, _ := strings.Cut(block+"\n", "----\n")
		var got strings.Builder
		for line := range strings.Lines(commands) {
			if said := w.do(t, strings.TrimSpace(line)); said != "" {
				got.WriteString(said + "\n")
			}
		}
		got.WriteString(w.String() + "\n")
		if !*rewrite && got.String() != want {
			t.Errorf("%s\ngot:\n%swant:\n%s", commands, got.String(), want)
		}
		fmt.Fprintf(&out, "%s----\n%s\n", commands, got.String())
		w.check(t)
	}
	if *rewrite {
		if err := os.WriteFile(file, append(bytes.TrimRight(out.Bytes(), "\n"), 10), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// world is one external volume without a store.
type world struct {
	volume *api.Volume
	attach bool
	// modes shows what attachments were published for.
	modes bool
	book  claim.Book
	index uint64
}

func (w *world) do(t *testing.T, line string) string {
	t.Helper()
	f := strings.Fields(line)
	if len(f) == 0 || f[0] == "#" {
		return ""
	}
	w.index++
	switch f[0] {
	case "volume":
		w.volume.RequestedCapabilities = nil
		for _, m := range f[1:] {
			w.volume.RequestedCapabilities = append(w.volume.RequestedCapabilities,
				&api.VolumeCapability{AccessMode: api.AccessMode(m), AttachmentMode: api.AttachmentFileSystem})
		}
		return ""
	case "no-attach":
		w.attach = false
		return ""
	case "show-modes":
		w.modes = true
		return ""
	case "state":
		w.volume.Provision.State = api.VolumeState(f[1])
		return ""
	case "take":
		return w.take(f[1:])
	case "published", "unpublished":
		return w.answered(f[0], f[1])
	case "stale", "clean":
		w.book.Stale = map[string]bool{f[1]: f[0] == "stale"}
		w.settle()
		return ""
	}
	return w.move(t, f[0], f[1])
}

// take ALLOC[/USE] on NODE read|write [as MODE] [of JOB] [with FSTYPE,FLAG,...] [stopping ALLOC,...]
//
// A command that takes two uses is two of them with "and" between.
func (w *world) take(f []string) string {
	var said []string
	for i := slices.Index(f, "and"); i >= 0; i = slices.Index(f, "and") {
		said = append(said, w.one(f[:i]))
		f = f[i+1:]
	}
	said = append(said, w.one(f))
	w.settle()
	return strings.Join(slices.DeleteFunc(said, func(s string) bool { return s == "" }), "\n")
}

func (w *world) one(f []string) string {
	alloc, use, _ := strings.Cut(f[0], "/")
	r := claim.Request{
		AllocID: alloc, VolumeID: "v", Use: use, NodeID: f[2], ReadOnly: f[3] == "read", JobID: "job", TaskGroup: "g", Namespace: "default",
	}
	stopping := map[string]bool{}
	for i := 4; i+1 < len(f); i += 2 {
		switch f[i] {
		case "as":
			r.AccessMode = api.AccessMode(f[i+1])
		case "of":
			r.JobID = f[i+1]
		case "with":
			o := strings.Split(f[i+1], ",")
			r.MountOptions = &api.MountOptions{FSType: o[0], MountFlags: o[1:]}
		case "stopping":
			for id := range strings.SplitSeq(f[i+1], ",") {
				stopping[id] = true
			}
		}
	}
	answer := claim.Fits(w.volume, w.book, r, stopping)
	if answer.Verdict == claim.Refused {
		return "refused: " + answer.Reason
	}
	if has := claim.Capability(w.volume, r); has != nil {
		r.AccessMode, r.AttachmentMode = has.AccessMode, has.AttachmentMode
	}
	c := &api.VolumeClaim{
		Namespace: "default", VolumeID: "v", AllocID: r.AllocID, Use: r.Use, NodeID: r.NodeID, JobID: r.JobID, TaskGroup: r.TaskGroup,
		PluginID: "p", ExternalID: "x", Mode: claim.ModeOf(r.ReadOnly, r.AccessMode), AccessMode: r.AccessMode,
		AttachmentMode: r.AttachmentMode, MountOptions: r.MountOptions, Attach: w.attach, State: api.ClaimTaken, CreateIndex: w.index,
	}
	said := ""
	if answer.Verdict == claim.Waits {
		c.State, c.Predecessor = api.ClaimWaiting, answer.Predecessor
		said = "waits: " + answer.Reason
	}
	w.book.Claims = append(w.book.Claims, c)
	return said
}

func (w *world) settle() {
	w.book = claim.Settle(w.book, claim.Moment{Index: w.index})
}

var moves = map[string]func(api.ClaimState) api.ClaimState{
	"unmounted": func(s api.ClaimState) api.ClaimState {
		if s == api.ClaimWaiting {
			return ""
		}
		return api.ClaimUnmounted
	},
	"stopped": func(s api.ClaimState) api.ClaimState {
		return map[api.ClaimState]api.ClaimState{api.ClaimTaken: api.ClaimUnmounted, api.ClaimReady: api.ClaimReleasing}[s]
	},
}

func (w *world) move(t *testing.T, verb, alloc string) string {
	t.Helper()
	to, known := moves[verb]
	i := slices.IndexFunc(w.book.Claims, func(c *api.VolumeClaim) bool { return name(c) == alloc })
	switch {
	case !known:
		t.Fatalf("unknown command %q", verb)
	case i < 0:
		return "refused: no claim of " + alloc
	}
	c := *w.book.Claims[i]
	next := to(c.State)
	if !claim.Legal(c.State, next) {
		return fmt.Sprintf("refused: %s is %s", alloc, c.State)
	}
	c.State = next
	w.book.Claims = slices.Clone(w.book.Claims)
	w.book.Claims[i] = &c
	if next == claim.Gone {
		w.book.Claims = slices.Delete(w.book.Claims, i, i+1)
	}
	w.settle()
	return ""
}

func (w *world) answered(verb, node string) string {
	i := slices.IndexFunc(w.book.Attachments, func(a *api.VolumeAttachment) bool { return a.NodeID == node })
	to := api.AttachmentPublished
	if verb == "unpublished" {
		to = claim.Gone
	}
	if i < 0 || !claim.Answers(w.book.Attachments[i].State, to) {
		return "refused: no such intent for " + node
	}
	a := *w.book.Attachments[i]
	a.State, a.CreateIndex = to, w.index
	w.book.Attachments = slices.Clone(w.book.Attachments)
	w.book.Attachments[i] = &a
	if to == claim.Gone {
		w.book.Attachments = slices.Delete(w.book.Attachments, i, i+1)
	}
	w.settle()
	return ""
}

func name(c *api.VolumeClaim) string {
	if c.Use == "" {
		return c.AllocID
	}
	return c.AllocID + "/" + c.Use
}

// String is "a1 ready; a2 waiting (a1) | n1 published".
func (w *world) String() string {
	var claims, attachments []string
	for _, c := range w.book.Claims {
		s := name(c) + " " + string(c.State)
		if c.Predecessor != "" {
			s += " (" + c.Predecessor + ")"
		}
		claims = append(claims, s)
	}
	for _, a := range w.book.Attachments {
		s := a.NodeID + " " + string(a.State)
		if w.modes {
			s += " as " + string(a.AccessMode)
		}
		attachments = append(attachments, s)
	}
	slices.Sort(claims)
	slices.Sort(attachments)
	left, right := strings.Join(claims, "; "), strings.Join(attachments, "; ")
	if left == "" {
		left = "free"
	}
	if right == "" {
		return left
	}
	return left + " | " + right
}

// check asserts what holds in every state.
func (w *world) check(t *testing.T) {
	t.Helper()
	again := claim.Settle(w.book, claim.Moment{Index: w.index + 1})
	if !slices.Equal(again.Claims, w.book.Claims) || !slices.Equal(again.Attachments, w.book.Attachments) {
		t.Errorf("settling twice changed %s", w)
	}
}
