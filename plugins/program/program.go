package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/open-nomad/open-nomad/api/fault"
)

const (
	// Timeout bounds the start of a process and calls that have no bound of their own, unless a [Program] has another one.
	Timeout = 10 * time.Second
	// Period is how often a plugin reports its health at least.
	Period = 30 * time.Second
	// silence is how long a process may send no report.
	silence = 3 * Period
	// againMin and againMax bound the pause before a process is started again; after calm it is the first one.
	againMin, againMax, calm = time.Second, time.Minute, 5 * time.Minute
	// endWait bounds cleaning up after a killed process, whose children may hold its outputs.
	endWait = 5 * time.Second
	// flowPause bounds how many messages a process can send in a time: it waits for the next one to be read.
	flowPause = 50 * time.Millisecond
)

// Program is one plugin.
type Program struct {
	Kind Kind
	// Path is the executable, Args its arguments.
	Path string
	Args []string
	// StateDir is a directory for the plugin alone. It survives restarts.
	StateDir string
	// Timeout bounds the start of the process.
	Timeout time.Duration
	Log     hclog.Logger
}

// Conn is the connection to a process.
type Conn = grpc.ClientConnInterface

// Keep starts a process, again when it ends, until ctx ends. attend uses each one until it returns why it has to end; its
// context ends with the process. ended is called with that reason before the pause. The kernel kills the process when the
// thread of Keep ends, which is with the agent.
func (p *Program) Keep(ctx context.Context, attend func(context.Context, Conn) error, ended func(error)) {
	runtime.LockOSThread()
	p.removeSockets()
	again := againMin
	for {
		begun := time.Now()
		err := p.run(ctx, attend)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > calm {
			again = againMin
		}
		err = firstLine(err)
		p.Log.Warn("process of the "+p.Kind.Noun+" ended", "error", err, "again_in", again)
		ended(fmt.Errorf("%s: %.500s; it is started again", p.Path, err.Error()))
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return
		}
		again = min(2*again, againMax)
	}
}

// firstLine is the first line of an error: go-plugin adds explanations.
func firstLine(err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " "))
}

// run runs one process until it ends, or is killed because it does not follow the protocol.
func (p *Program) run(ctx context.Context, attend func(context.Context, Conn) error) error {
	if err := os.MkdirAll(p.StateDir, 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.Path, p.Args...)
	cmd.Dir = p.StateDir
	sockets, err := p.sockets()
	if err != nil {
		return err
	}
	defer p.removeSockets()
	cmd.Env = []string{plugin.EnvUnixSocketDir + "=" + sockets, "PATH=" + os.Getenv("PATH")} // the agent's own has secrets
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: p.Kind.handshake(), VersionedPlugins: p.Kind.plugins(&service{}), Cmd: cmd, SkipHostEnv: true, StartTimeout: p.Timeout,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, Logger: limited(p.Log, p.Kind.Noun),
		GRPCDialOptions: []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage))},
	})
	defer func() {
		cancel() // waiting calls continue with the next process, before this one is cleaned up
		end(c, cmd)
	}()
	connected, err := c.Client()
	if err != nil {
		return fmt.Errorf("it does not speak %s: %w", p.Kind.Protocol, handshake(err))
	}
	dispensed, err := connected.Dispense(serviceName)
	if err != nil {
		return err
	}
	conn, ok := dispensed.(*grpc.ClientConn)
	if !ok {
		return fault.New(fault.Internal, "unexpected plugin %T", dispensed)
	}
	return attend(ctx, conn)
}

// handshake explains an error of go-plugin about the first line that a process prints, without what it prints.
func handshake(err error) error {
	for _, known := range []string{"Unrecognized remote plugin message", "parsing core protocol version"} {
		if strings.Contains(err.Error(), known) {
			return errors.New("it ended before its handshake, or printed something else")
		}
	}
	return err
}

func end(c *plugin.Client, cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = cmd.Process.Kill()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Kill()
	}()
	select {
	case <-done:
	case <-time.After(endWait):
	}
}

// Receiver is a stream of messages.
type Receiver[T any] interface{ Recv() (T, error) }

// Follow passes the reports of a stream to each until the stream ends, or is silent: the first one must come within the timeout,
// and each later one within three times [Period]. A plugin that sends many waits for the next one to be read.
func Follow[T any, S Receiver[T]](ctx context.Context, timeout time.Duration, open func(context.Context) (S, error), each func(T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stream, err := open(ctx)
	if err != nil {
		return fmt.Errorf("call Fingerprint: %w", err)
	}
	late := func(text string, wait time.Duration) *time.Timer {
		return time.AfterFunc(wait, func() { cancel(fault.New(fault.Timeout, "it has sent no report of its health "+text+" %v", wait)) })
	}
	timer := late("within", timeout)
	defer func() { timer.Stop() }()
	for {
		r, err := stream.Recv()
		timer.Stop()
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return fmt.Errorf("call Fingerprint: %w", err)
		}
		if err := each(r); err != nil {
			return err
		}
		Pause(ctx)
		timer = late("for", silence)
	}
}

// Pause waits a moment before the next message of a plugin is read.
func Pause(ctx context.Context) {
	select {
	case <-time.After(flowPause):
	case <-ctx.Done():
	}
}
