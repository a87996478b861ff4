package checks_test

import (
	"crypto/tls"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/open-nomad/open-nomad/api"
)

// serveGRPC serves a health service, or none when h is nil, until the test ends.
func serveGRPC(t *testing.T, h *health.Server, options ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer(options...)
	if h != nil {
		grpc_health_v1.RegisterHealthServer(srv, h)
	}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(srv.Stop)
	return l.Addr().String()
}

// certificate is one for example.com, as a server has it.
func certificate() tls.Certificate {
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	return srv.TLS.Certificates[0]
}

func TestGRPC(t *testing.T) {
	t.Parallel()
	h := health.NewServer()
	h.SetServingStatus("down", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	plain := serveGRPC(t, h)
	secure := serveGRPC(t, h, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{certificate()}, MinVersion: tls.VersionTLS12})))
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it accepts nothing, the kernel does
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	for name, c := range map[string]struct {
		address, status, output string
		check                   api.ServiceCheck
	}{
		"serves":          {plain, api.CheckSuccess, "nomad: grpc ok", api.ServiceCheck{}},
		"serves not":      {plain, api.CheckFailure, "NOT_SERVING", api.ServiceCheck{GRPCService: "down"}},
		"unknown":         {plain, api.CheckFailure, `no health of service "none"`, api.ServiceCheck{GRPCService: "none"}},
		"no health":       {serveGRPC(t, nil), api.CheckFailure, "no gRPC health service", api.ServiceCheck{}},
		"no response":     {silent.Addr().String(), api.CheckFailure, "no response within 1s", api.ServiceCheck{}},
		"no port":         {plain, api.CheckFailure, "not a port of the allocation", api.ServiceCheck{PortLabel: "x"}},
		"TLS, not asked":  {secure, api.CheckFailure, "", api.ServiceCheck{}},
		"TLS, unknown CA": {secure, api.CheckFailure, "certificate", api.ServiceCheck{GRPCUseTLS: true, TLSServerName: "example.com"}},
		"TLS":             {secure, api.CheckSuccess, "nomad: grpc ok", api.ServiceCheck{GRPCUseTLS: true, TLSSkipVerify: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.check.Name, c.check.Type = "c", "grpc"
			a := with(c.address, c.check)
			if name == "no response" {
				a.Job.TaskGroups[0].Services[0].Checks[0].Timeout = time.Second
			}
			g := &group{}
			g.become(api.TaskStateRunning, 0)
			s := run(t, a, g)
			await(t, c.status, func() bool { return one(s).Status == c.status })
			if got := one(s).Output; !strings.Contains(got, c.output) {
				t.Errorf("output %q", got)
			}
		})
	}
}
