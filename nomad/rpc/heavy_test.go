package rpc

import (
	"context"
	"errors"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/wire"
	"github.com/open-nomad/open-nomad/internal/cpulimit"
)

// Plans and validations need a slot for long work, which a canceled request does not get.
func TestHeavyMethodsWaitForTheProcessors(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(cpulimit.New(1).For(t.Context(), "a"))
	cancel()
	for _, h := range []wire.Handler{
		wire.JobPlan.Handle(func(context.Context, *api.JobPlanRequest) (*api.JobPlanResponse, error) { return nil, nil }),
		wire.JobValidate.Handle(func(context.Context, *api.JobValidateRequest) (*api.JobValidateResponse, error) { return nil, nil }),
	} {
		if _, err := limitCPU(h)(ctx, h.New()); !errors.Is(err, context.Canceled) {
			t.Errorf("%s did not wait for a slot: %v", h.Name, err)
		}
	}
}
