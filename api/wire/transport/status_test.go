package transport

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
)

func TestFailedPluginCallSurvivesRPC(t *testing.T) {
	call := &fault.Call{
		RPC: "ControllerUnpublishVolume", Code: "NotFound", Text: "no volume é", Verdict: fault.VerdictVerify, Uncertain: true,
		Class: fault.NotFound,
	}
	err := fromStatus(context.Background(), "Controller.Unpublish", toStatus(fmt.Errorf("plugin p: %w", call)))
	var got *fault.Call
	if !errors.As(err, &got) || *got != *call {
		t.Fatalf("the call is %+v after RPC", got)
	}
	if !errors.Is(err, fault.NotFound) || err.Error() != "plugin p: "+call.Error() {
		t.Fatalf("error %q of class %v", err, fault.Of(err))
	}
	if errors.As(fromStatus(context.Background(), "x", toStatus(fault.New(fault.NotFound, "plugin p"))), &got) {
		t.Fatal("an error that is not the plugin's became a call")
	}
}
