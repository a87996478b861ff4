package wire_test

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
)

// A service binds its methods to entries of the table; a caller uses the same entries, so that neither can mistake a
// name or a type.
func ExampleMethod() {
	servers := wire.Direct(wire.JobGet.Handle(func(_ context.Context, r *api.JobRequest) (*api.JobGetResponse, error) {
		return &api.JobGetResponse{Job: &api.Job{ID: r.JobID, Type: "service"}}, nil
	}))

	out, err := wire.JobGet.Call(context.Background(), servers, &api.JobRequest{JobID: "web"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(out.Job.ID, out.Job.Type)
	// Output: web service
}
