package csi_test

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// The answer to a call has a verdict: whether the call is made again, and whether it may have done something. Here the
// plugin is the driver in memory that tests use.
func ExampleClient_ControllerPublish() {
	driver := fake.New(fake.Config{Attach: true})
	driver.Storage().Add("x1")
	c, err := csi.New(csi.Config{Socket: "p", Connect: func(_ string, h stats.Handler) grpc.ClientConnInterface { return driver.Conn(h) }})
	if err != nil {
		fmt.Println(err)
		return
	}
	publish := &api.ControllerPublishRequest{
		ExternalID: "x1", ProviderNodeID: "fake-node",
		AccessMode: api.AccessSingleNodeWriter, AttachmentMode: api.AttachmentFileSystem,
	}
	_, err = c.ControllerPublish(context.Background(), publish)
	fmt.Println(err, driver.Storage().Use("x1").Attached)

	driver.Script(fake.Fault{RPC: "ControllerPublishVolume", Code: codes.InvalidArgument})
	_, err = c.ControllerPublish(context.Background(), publish)
	var call *fault.Call
	if errors.As(err, &call) {
		fmt.Println(call.Code, csi.VerdictOf(err), call.Uncertain)
	}
	// Output:
	// <nil> [fake-node]
	// InvalidArgument final false
}
