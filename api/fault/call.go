package fault

import "fmt"

// Verdict is what a caller does after a call to a storage plugin failed. One table makes it, in plugins/csi;
// no other code decides by codes or texts.
type Verdict string

// Verdicts.
const (
	// VerdictRetry repeats the call with exponential backoff for as long as its result is wanted.
	VerdictRetry Verdict = "retry"
	// VerdictRetrySoon repeats the call as soon as the plugin can be reached: it went away or was never reached.
	VerdictRetrySoon Verdict = "retry soon"
	// VerdictFinal ends the operation: the answer would stay the same.
	VerdictFinal Verdict = "final"
	// VerdictUncertain repeats the call a few times; then what it may have done is verified or undone.
	VerdictUncertain Verdict = "uncertain"
	// VerdictVerify means that there is nothing left to do, provided that the provider confirms it: NOT_FOUND of
	// a call that undoes something.
	VerdictVerify Verdict = "done after verification"
	// VerdictLimit is a limit: try elsewhere, or later.
	VerdictLimit Verdict = "limit"
	// VerdictChanged means that the plugin cannot do what it announced: its capabilities are read again and
	// another instance may be asked.
	VerdictChanged Verdict = "capability changed"
)

// Call is the failure of one call to a plugin. It survives RPC: errors.As finds it on the other side. An error
// without a Call is not the plugin's: the plugin was not asked.
type Call struct {
	// RPC is the name of the call, such as NodeStageVolume.
	RPC string
	// Code is the gRPC code in its usual spelling, such as NotFound.
	Code string
	// Text is the plugin's message without the values of secrets.
	Text    string
	Verdict Verdict
	// Uncertain is set when the call may have had its effect all the same.
	Uncertain bool
	// Class is what callers outside of the volumes see.
	Class Class
}

// Error is the call, the plugin's text and the code.
func (c *Call) Error() string { return fmt.Sprintf("%s: %s (%s)", c.RPC, c.Text, c.Code) }

// Unwrap makes errors.Is find the class.
func (c *Call) Unwrap() error { return c.Class }

// Credentials reports whether the plugin refused the secrets or the rights that come with them.
func (c *Call) Credentials() bool { return c.Code == "Unauthenticated" || c.Code == "PermissionDenied" }

// Taken reports whether the plugin has something of the name or id that is not what was asked for.
func (c *Call) Taken() bool { return c.Code == "AlreadyExists" }
