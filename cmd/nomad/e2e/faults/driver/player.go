package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/faults/script"
)

// player serves calls by the script.
type player struct {
	dir, node string
	// own are the calls that do not reach the embedded driver.
	own   map[string]own
	calls atomic.Int64
}

// own carries out a call of a node.
type own func(call) error

// call has the fields of the requests about mounts.
type call interface {
	GetVolumeId() string
}

// pathsOf returns the staging and the target path of a request; those that it lacks are empty.
func pathsOf(c call) (staging, target string) {
	if r, ok := c.(interface{ GetStagingTargetPath() string }); ok {
		staging = r.GetStagingTargetPath()
	}
	if r, ok := c.(interface{ GetTargetPath() string }); ok {
		target = r.GetTargetPath()
	}
	return staging, target
}

var errCallerGone = status.Error(codes.Canceled, "the caller went away")

// serve is the interceptor of all calls.
func (p *player) serve(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	call := p.describe(path.Base(info.FullMethod), req)
	p.note(call)
	resp, err := p.decide(ctx, call, req, next)
	if ctx.Err() != nil {
		err = errCallerGone
	}
	call.Done, call.At = true, time.Now()
	call.Code, call.Text = int(status.Code(err)), status.Convert(err).Message()
	p.note(call)
	return resp, err
}

// note leaves out what is asked all the time.
func (p *player) note(e script.Event) {
	if e.RPC == "Probe" || strings.HasSuffix(e.RPC, "GetCapabilities") || strings.HasPrefix(e.RPC, "GetPlugin") || e.RPC == "NodeGetInfo" {
		return
	}
	if err := script.Append(p.dir, e); err != nil {
		fmt.Fprintln(os.Stderr, "faulty driver:", err)
	}
}

func (p *player) describe(rpc string, req any) script.Event {
	e := script.Event{
		ID: fmt.Sprintf("%s-%d-%d", p.node, os.Getpid(), p.calls.Add(1)), Node: p.node, RPC: rpc, At: time.Now(),
	}
	if r, ok := req.(call); ok {
		e.Volume = r.GetVolumeId()
	}
	if !strings.HasPrefix(rpc, "Node") {
		e.To = script.Anywhere
	}
	switch r := req.(type) {
	case interface{ GetNodeId() string }:
		e.To = r.GetNodeId()
	case *pb.CreateVolumeRequest:
		e.Volume = r.GetName()
		for key, value := range r.GetParameters() {
			e.Parameters = append(e.Parameters, key+"="+value)
		}
	case *pb.CreateSnapshotRequest:
		e.Volume = r.GetSourceVolumeId()
	case *pb.DeleteSnapshotRequest:
		e.Volume = r.GetSnapshotId()
	}
	return e
}

// decide serves a call by the script, or forwards it to the driver.
func (p *player) decide(ctx context.Context, call script.Event, req any, next grpc.UnaryHandler) (any, error) {
	if err := p.admit(call.RPC, req); err != nil {
		return nil, err
	}
	f, err := script.Find(p.dir, call)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return p.pass(ctx, call, req, next)
	}
	if !wait(ctx, f.Delay, nil) {
		return nil, errCallerGone
	}
	if f.Lost {
		// The driver does its work whatever becomes of the caller.
		_, _ = p.pass(context.WithoutCancel(ctx), call, req, next)
	}
	if f.Hang {
		wait(ctx, time.Hour, func() bool {
			now, err := script.Find(p.dir, call)
			return err == nil && (now == nil || !now.Hang)
		})
	}
	if f.Code != 0 {
		return nil, status.Error(codes.Code(f.Code), f.Text)
	}
	return p.pass(ctx, call, req, next)
}

// admit checks the secrets of a call. What it refuses it explains as careless drivers do: with the secret, and in
// several lines.
func (p *player) admit(rpc string, req any) error {
	want, err := script.Password(p.dir)
	r, has := req.(interface{ GetSecrets() map[string]string })
	if err != nil || want == "" || !has || rpc == "ValidateVolumeCapabilities" || rpc == "NodeExpandVolume" || rpc == "ListSnapshots" {
		return err
	}
	if got := r.GetSecrets()[script.PasswordKey]; got != want {
		return status.Errorf(codes.Unauthenticated, "login failed\n  user: admin\n  password: %s\nask the administrator of the array", got)
	}
	return nil
}

// wait waits until the time has passed or the condition is true; it returns false when the caller's context has ended.
func wait(ctx context.Context, d time.Duration, over func() bool) bool {
	end := time.After(d)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-end:
			return true
		case <-tick.C:
			if over != nil && over() {
				return true
			}
		}
	}
}

func (p *player) pass(ctx context.Context, c script.Event, req any, next grpc.UnaryHandler) (any, error) {
	if ctx.Err() != nil {
		return nil, errCallerGone
	}
	if do := p.own[c.RPC]; do != nil {
		if err := do(req.(call)); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		return &emptypb.Empty{}, nil
	}
	cut := p.fences(c)
	resp, err := next(ctx, req)
	if err == nil && cut {
		err = p.cutOff(c)
	}
	return resp, err
}
