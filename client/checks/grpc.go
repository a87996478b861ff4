package checks

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// responseMax bounds the response of a gRPC server in bytes.
const responseMax = 64 << 10

// probeGRPC calls the health service of gRPC on a connection of its own, without a proxy.
func (c *check) probeGRPC(ctx context.Context) outcome {
	transport := insecure.NewCredentials()
	if c.spec.GRPCUseTLS {
		transport = credentials.NewTLS(c.tls())
	}
	conn, err := grpc.NewClient("passthrough:///"+c.address, grpc.WithTransportCredentials(transport), grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(responseMax)))
	if err != nil {
		return failed(err)
	}
	defer func() { _ = conn.Close() }()
	resp, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: c.spec.GRPCService})
	switch {
	case status.Code(err) == codes.DeadlineExceeded:
		return c.late()
	case status.Code(err) == codes.Unimplemented:
		return outcome{output: "the server has no gRPC health service (grpc.health.v1.Health)"}
	case status.Code(err) == codes.NotFound:
		return outcome{output: fmt.Sprintf("the server has no health of service %.200q", c.spec.GRPCService)}
	case err != nil:
		return failed(err)
	case resp.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING:
		return outcome{output: "the status of the service is " + resp.GetStatus().String()}
	}
	return outcome{passed: true, output: "nomad: grpc ok"}
}
