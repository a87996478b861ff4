package csi_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"

	"github.com/open-nomad/open-nomad/plugins/csi"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

func TestCallsAreObservedWithTheirCodes(t *testing.T) {
	t.Parallel()
	driver := fake.New(fake.Config{})
	var seen []string
	c, err := csi.New(csi.Config{
		Socket: "p", Connect: func(_ string, h stats.Handler) grpc.ClientConnInterface { return driver.Conn(h) },
		Observe: func(rpc, code string, _ time.Duration) { seen = append(seen, rpc+" "+code) },
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.Probe(t.Context())
	driver.Script(fake.Fault{RPC: "Probe", Code: codes.Unavailable})
	_, _ = c.Probe(t.Context())
	if want := []string{"Probe OK", "Probe Unavailable"}; !slices.Equal(seen, want) {
		t.Errorf("observed %q, not %q", seen, want)
	}
}
