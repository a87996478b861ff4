package csi_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// Verdicts in the short spelling of the table below; a ! is for calls that may have had their effect.
var verdicts = map[fault.Verdict]string{
	"": "done", fault.VerdictRetry: "retry", fault.VerdictRetrySoon: "soon", fault.VerdictFinal: "final",
	fault.VerdictUncertain: "few", fault.VerdictVerify: "verify", fault.VerdictLimit: "limit", fault.VerdictChanged: "changed",
}

// One column for each kind of call: what the specification says of the code there.
const wantedVerdicts = `
code                Validate ListVolumes CreateVolume CreateSnapshot DeleteVolume ControllerPublish ControllerUnpublish NodeStage NodeUnstage ControllerExpand NodeExpand
Canceled            retry    retry       retry!       retry!         retry!       retry!            retry!              retry!    retry!      retry!           retry!
Unknown             few      few         few!         few!           retry!       few!              retry!              few!      retry!      few!             few!
InvalidArgument     final    final       final        final          final        final             retry               final     retry       final            final
DeadlineExceeded    retry    retry       retry!       retry!         retry!       retry!            retry!              retry!    retry!      retry!           retry!
NotFound            final    final       final        final          done         few               verify              few       verify      final            final
AlreadyExists       final    final       final        final          final        final             retry               final     retry       final            final
PermissionDenied    final    final       final        final          retry        final             retry               final     retry       final            final
ResourceExhausted   limit    limit       limit        final          retry        limit             retry               limit     retry       limit            limit
FailedPrecondition  final    final       final        final          retry        retry             retry               final     retry       few              final
Aborted             retry    final       retry!       retry!         retry!       retry!            retry!              retry!    retry!      retry!           retry!
OutOfRange          final    final       final        final          final        final             retry               final     retry       final            final
Unimplemented       changed  changed     changed      changed        changed      changed           changed             changed   changed     changed          changed
Internal            few      few         few!         few!           retry!       few!              retry!              few!      retry!      few!             few!
Unavailable         retry    retry       retry!       retry!         retry!       retry!            retry!              retry!    retry!      retry!           retry!
DataLoss            final    final       final!       final!         final!       final!            retry!              final!    retry!      final!           final!
Unauthenticated     final    final       final        final          retry        final             retry               final     retry       final            final
Code(77)            few      few         few!         few!           retry!       few!              retry!              few!      retry!      few!             few!
`

// callable is a call of a client that the fake driver would grant.
type callable struct {
	rpc  string
	call func(context.Context) error
}

func everyKindOfCall(cl *csi.Client, target string) map[string]callable {
	v := volume("v")
	v.TargetPath = target
	publish := &api.ControllerPublishRequest{
		ExternalID: "v", ProviderNodeID: "fake-node", AccessMode: v.AccessMode, AttachmentMode: v.AttachmentMode,
	}
	ignore := func(_ any, err error) error { return err }
	return map[string]callable{
		"Validate": {"ValidateVolumeCapabilities", func(ctx context.Context) error {
			return ignore(cl.Validate(ctx, &api.ControllerValidateRequest{ExternalID: "v", Capabilities: creation("v").Capabilities}))
		}},
		"ListVolumes": {"ListVolumes", func(ctx context.Context) error {
			return ignore(cl.ListVolumes(ctx, &api.ControllerListRequest{}))
		}},
		"CreateVolume": {"CreateVolume", func(ctx context.Context) error { return ignore(cl.CreateVolume(ctx, creation("v"))) }},
		"CreateSnapshot": {"CreateSnapshot", func(ctx context.Context) error {
			return ignore(cl.CreateSnapshot(ctx, &api.ControllerSnapshotRequest{ExternalID: "v", Name: "s"}))
		}},
		"DeleteVolume": {"DeleteVolume", func(ctx context.Context) error {
			return cl.DeleteVolume(ctx, &api.ControllerDeleteRequest{ExternalID: "v"})
		}},
		"ControllerPublish": {"ControllerPublishVolume", func(ctx context.Context) error {
			return ignore(cl.ControllerPublish(ctx, publish))
		}},
		"ControllerUnpublish": {"ControllerUnpublishVolume", func(ctx context.Context) error {
			return cl.ControllerUnpublish(ctx, &api.ControllerUnpublishRequest{ExternalID: "v", ProviderNodeID: "fake-node"})
		}},
		"NodeStage":   {"NodeStageVolume", func(ctx context.Context) error { return cl.NodeStage(ctx, v) }},
		"NodeUnstage": {"NodeUnstageVolume", func(ctx context.Context) error { return cl.NodeUnstage(ctx, "v", "/s") }},
		"ControllerExpand": {"ControllerExpandVolume", func(ctx context.Context) error {
			return ignore(cl.ControllerExpand(ctx, &api.ControllerExpandRequest{ExternalID: "v", CapacityMinBytes: 1}))
		}},
		"NodeExpand": {"NodeExpandVolume", func(ctx context.Context) error { return ignore(cl.NodeExpand(ctx, v, 1)) }},
	}
}

// codeNamed reads the spelling of codes.Code.String.
func codeNamed(t *testing.T, name string) codes.Code {
	t.Helper()
	for c := codes.OK; c <= 77; c++ {
		if c.String() == name {
			return c
		}
	}
	t.Fatalf("no code is named %s", name)
	return 0
}

func TestEveryCodeHasItsVerdictAtEveryKindOfCall(t *testing.T) {
	d := fake.New(fake.Config{Attach: true})
	d.Storage().Add("v")
	cl := dial(t, d, csi.Timeouts{})
	calls := everyKindOfCall(cl, filepath.Join(t.TempDir(), "t"))
	rows := strings.Split(strings.TrimSpace(wantedVerdicts), "\n")
	head := strings.Fields(rows[0])
	for _, row := range rows[1:] {
		cells := strings.Fields(row)
		code := codeNamed(t, cells[0])
		for i := 1; i < len(head); i++ {
			d.Heal()
			c := calls[head[i]]
			d.Script(fake.Fault{RPC: c.rpc, Code: code, Text: "why"})
			err := c.call(t.Context())
			got := verdicts[csi.VerdictOf(err)]
			var said *fault.Call
			if errors.As(err, &said) {
				if said.Uncertain {
					got += "!"
				}
				if said.RPC != c.rpc || said.Code != code.String() || !strings.Contains(said.Text, "why") {
					t.Errorf("%s of %s is told as %q", code, c.rpc, said)
				}
			}
			if got != cells[i] {
				t.Errorf("%s of %s: %s, wanted %s", code, c.rpc, got, cells[i])
			}
		}
	}
}

func TestClassesSayWhatOutsidersSee(t *testing.T) {
	for code, class := range map[codes.Code]fault.Class{
		codes.Unavailable: fault.Unavailable, codes.Aborted: fault.Unavailable, codes.DeadlineExceeded: fault.Timeout,
		codes.Internal: fault.Internal, codes.InvalidArgument: fault.Invalid, codes.OutOfRange: fault.Invalid,
		codes.FailedPrecondition: fault.Conflict, codes.AlreadyExists: fault.Conflict, codes.NotFound: fault.NotFound,
		codes.ResourceExhausted: fault.Exhausted, codes.Unimplemented: fault.Unimplemented,
		codes.Unauthenticated: fault.Denied, codes.PermissionDenied: fault.Denied, codes.Code(77): fault.Internal,
	} {
		if err := csi.Explain("NodeStageVolume", code, "x"); !errors.Is(err, class) || fault.Of(err) != class {
			t.Errorf("%s has class %v", code, fault.Of(err))
		}
	}
}

func TestDeleteOfWhatIsNotThereSucceeds(t *testing.T) {
	for _, rpc := range []string{"DeleteVolume", "DeleteSnapshot"} {
		if err := csi.Explain(rpc, codes.NotFound, "gone"); err != nil {
			t.Errorf("%s: %v", rpc, err)
		}
	}
}

func TestDetachIsNotProvenByNotFound(t *testing.T) {
	d := fake.New(fake.Config{Attach: true})
	d.Storage().Add("v")
	cl := dial(t, d, csi.Timeouts{})
	calls := everyKindOfCall(cl, "/t")
	if err := calls["ControllerPublish"].call(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.Script(fake.Fault{RPC: "ControllerUnpublishVolume", Code: codes.NotFound, Text: "node i-1 is not known to this zone"})
	err := calls["ControllerUnpublish"].call(t.Context())
	if use := d.Storage().Use("v"); len(use.Attached) != 1 || csi.VerdictOf(err) != fault.VerdictVerify {
		t.Errorf("attached to %v, the verdict of %v is %q", use.Attached, err, csi.VerdictOf(err))
	}
}

func TestUnreachedPluginDidNothing(t *testing.T) {
	cl, err := csi.New(csi.Config{Socket: filepath.Join(t.TempDir(), "none.sock")})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	err = cl.NodeUnstage(t.Context(), "v", "/s")
	var said *fault.Call
	if !errors.As(err, &said) || said.Verdict != fault.VerdictRetrySoon || said.Uncertain {
		t.Errorf("a plugin that is not there answers %v: %+v", err, said)
	}
}

func TestPluginThatDiesDuringACallMayHaveDoneIt(t *testing.T) {
	d := fake.New(fake.Config{})
	d.Storage().Add("v")
	cl, stop := dialUntil(t, d, csi.Config{})
	d.Script(fake.Fault{RPC: "NodeUnstageVolume", Hang: true})
	failed := make(chan error, 1)
	go func() { failed <- cl.NodeUnstage(t.Context(), "v", "/s") }()
	for len(d.Calls("NodeUnstageVolume")) == 0 {
		time.Sleep(time.Millisecond)
	}
	stop()
	err := <-failed
	var said *fault.Call
	if !errors.As(err, &said) || said.Verdict != fault.VerdictRetrySoon || !said.Uncertain {
		t.Errorf("a plugin that dies answers %v: %+v", err, said)
	}
}

func TestEveryCallHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fake.New(fake.Config{})
		d.Storage().Add("v")
		cl := direct(t, d, nil)
		d.Script(fake.Fault{RPC: "NodeStageVolume", Hang: true})
		err := cl.NodeStage(t.Context(), volume("v"))
		var said *fault.Call
		if !errors.As(err, &said) || !said.Uncertain || said.Verdict != fault.VerdictRetry {
			t.Errorf("a hung call answers %v", err)
		}
		time.Sleep(time.Hour) // the call is cancelled a while after it was given up
	})
}

func TestCallersDeadlineIsTheBound(t *testing.T) {
	d := fake.New(fake.Config{})
	cl := dial(t, d, csi.Timeouts{Change: 20 * time.Millisecond})
	d.Script(fake.Fault{RPC: "CreateVolume", Delay: 100 * time.Millisecond, Code: codes.OK})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := cl.CreateVolume(ctx, creation("v")); err != nil {
		t.Errorf("a driver that needs longer than the default, and less than the caller gives: %v", err)
	}
}

func TestDoRepeatsWhatPasses(t *testing.T) {
	quick := csi.Backoff{First: time.Millisecond, Max: time.Millisecond}
	tries := func(until int, errs ...error) (int, error) {
		n := 0
		got := csi.Do(t.Context(), quick, func(context.Context) error {
			if n++; n == until {
				return nil
			}
			return errs[(n-1)%len(errs)]
		})
		return n, got
	}
	said := func(code codes.Code) error {
		return fmt.Errorf("mount: %w", csi.Explain("NodeStageVolume", code, "x"))
	}
	for _, c := range []struct {
		what  string
		errs  []error
		tries int
		ok    bool
	}{
		{"unavailable", []error{fault.New(fault.Unavailable, "x")}, 20, true},
		{"a restarting plugin", []error{said(codes.Unavailable)}, 20, true},
		{"invalid", []error{fault.New(fault.Invalid, "x")}, 1, false},
		{"already there with other arguments", []error{said(codes.AlreadyExists)}, 1, false},
		{"internal", []error{said(codes.Internal)}, 3, false},
		{"internal after a restart", []error{said(codes.Unavailable), said(codes.Unavailable), said(codes.Unavailable), said(codes.Internal)}, 12, false},
		{"few of each", []error{said(codes.Internal), said(codes.Unknown)}, 5, false},
		{"capability changed", []error{said(codes.Unimplemented)}, 1, false},
		{"limit", []error{said(codes.ResourceExhausted)}, 1, false},
		{"to be verified", []error{csi.Explain("NodeUnstageVolume", codes.NotFound, "x")}, 1, false},
	} {
		if n, err := tries(20, c.errs...); n != c.tries || (err == nil) != c.ok {
			t.Errorf("%s: %d tries, %v", c.what, n, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := csi.Do(ctx, quick, func(context.Context) error { cancel(); return fault.New(fault.Unavailable, "last words") })
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "last words") {
		t.Errorf("a cancelled retry answers %v", err)
	}
}
