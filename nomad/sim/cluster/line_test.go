package cluster

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/plugins/csi/fake"
)

// process is a plugin's process; it outlives agents. It is guarded by World.mu.
type process struct {
	n        *node
	id, kind string
	alloc    string
	driver   *fake.Driver
	up       bool
	// poor is set while a controller has lost the capability to attach, as one of another version has.
	poor bool
}

func (p *process) socket() string { return p.alloc }

// line is the connection of an agent to a plugin, over which everything may go wrong that may go wrong with a
// call of CSI. It implements [grpc.ClientConnInterface].
type line struct {
	a     *agent
	p     *process
	to    grpc.ClientConnInterface
	stats stats.Handler
}

// connect is the [csi.Connector] of an agent.
func (a *agent) connect(socket string, h stats.Handler) grpc.ClientConnInterface {
	a.n.w.mu.Lock()
	defer a.n.w.mu.Unlock()
	for _, p := range a.n.plugins {
		if p.socket() == socket {
			return &line{a: a, p: p, to: p.driver.Conn(h), stats: h}
		}
	}
	return &line{a: a, p: &process{n: a.n}, stats: h} // nobody listens
}

// NewStream implements [grpc.ClientConnInterface].
func (*line) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "no streams")
}

// request is one call that changes something.
type request struct {
	*line
	rpc, method string
	args        proto.Message
	external    string
	// object is what of the driver works on one call at a time, what tells the call in stories.
	object, what string
}

var errGone = status.Error(codes.Unavailable, "connection refused")

// Invoke implements [grpc.ClientConnInterface].
func (l *line) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	w, rpc := l.a.n.w, method[strings.LastIndexByte(method, '/')+1:]
	if w.bug == BugSpecLocked {
		dealiased(args)
	}
	w.mu.Lock()
	gone := !l.p.up || l.a.ctx.Err() != nil
	poor := l.p.poor
	w.mu.Unlock()
	if gone {
		return errGone
	}
	r := l.request(rpc, method, args)
	if r == nil {
		err := l.to.Invoke(ctx, method, args, reply, opts...)
		if c, ok := reply.(*pb.ControllerGetCapabilitiesResponse); ok && poor {
			c.Capabilities = without(c.Capabilities, pb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)
		}
		return err
	}
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	if poor && strings.Contains(rpc, "publishVolume") || poor && strings.Contains(rpc, "PublishVolume") {
		return status.Error(codes.Unimplemented, "not in this version")
	}
	if l.a.dies("before " + r.what) {
		return errGone
	}
	if m, ok := args.(*pb.NodeUnpublishVolumeRequest); ok && w.bug == BugEarlyReport {
		l.a.reportEarly(ctx, m.GetTargetPath())
	}
	l.stats.HandleRPC(ctx, &stats.OutHeader{Client: true})
	err, answered := r.play(ctx, reply.(proto.Message))
	if l.a.dies("after "+r.what) || l.a.ctx.Err() != nil {
		return errGone
	}
	if answered {
		l.stats.HandleRPC(ctx, &stats.InTrailer{Client: true})
	}
	return err
}

func without(list []*pb.ControllerServiceCapability, t pb.ControllerServiceCapability_RPC_Type) (out []*pb.ControllerServiceCapability) {
	for _, c := range list {
		if c.GetRpc().GetType() != t {
			out = append(out, c)
		}
	}
	return out
}

// request makes a call that changes something of arguments; nil for those that ask only.
func (l *line) request(rpc, method string, args any) *request {
	r := &request{line: l, rpc: rpc, method: method, args: args.(proto.Message)}
	path := ""
	switch m := args.(type) {
	case *pb.NodeStageVolumeRequest:
		path = "staging"
	case *pb.NodeUnstageVolumeRequest:
		path = "staging"
	case *pb.NodePublishVolumeRequest:
		path = m.GetTargetPath()
	case *pb.NodeUnpublishVolumeRequest:
		path = m.GetTargetPath()
	case *pb.NodeExpandVolumeRequest:
		path = "staging"
	case *pb.ControllerPublishVolumeRequest:
		path = m.GetNodeId()
	case *pb.ControllerUnpublishVolumeRequest:
		path = m.GetNodeId()
	case *pb.CreateVolumeRequest:
		r.external = "name " + m.GetName()
	case *pb.DeleteVolumeRequest, *pb.ControllerExpandVolumeRequest:
	default:
		return nil
	}
	if v, ok := args.(interface{ GetVolumeId() string }); ok {
		r.external = v.GetVolumeId()
	}
	w, n := l.a.n.w, l.a.n
	w.mu.Lock()
	defer w.mu.Unlock()
	if use := n.users[path]; use != nil {
		path = use.key()
	}
	r.object = r.external
	if strings.HasPrefix(rpc, "Node") {
		r.object += " on " + n.id
	}
	r.what = strings.TrimSpace(n.id + " " + rpc + " " + r.external + " " + path)
	return r
}

// play decides by dice what becomes of a call. answered tells whether it was the plugin that answered.
func (r *request) play(ctx context.Context, reply proto.Message) (err error, answered bool) {
	n, w := r.a.n, r.a.n.w
	reply, into := reply.ProtoReflect().New().Interface(), reply
	dice := w.dice.roll("driver " + r.what)
	f := w.fate(dice, r.rpc)
	w.mu.Lock()
	if m, ok := r.args.(*pb.CreateVolumeRequest); ok && w.made(m.GetName()) {
		f.took, f.late = min(f.took, 10*time.Millisecond), 0 // what is there is not made later, after it was deleted meanwhile
		if slices.Contains(odd[r.rpc], f.before) {           // nor refused for good: a driver that has made it says so
			f.before = codes.Unavailable
		}
	}
	if w.hangs(r.args) {
		w.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-r.a.ctx.Done():
		}
		return unanswered(ctx), false
	}
	if other := w.busy[r.object]; other != nil {
		if other.node && !other.given {
			w.fail("%s is called while %s is in flight", r.what, other.what)
		}
		w.mu.Unlock()
		return status.Error(codes.Aborted, "another call for the volume is under way"), true
	}
	mine := &working{what: r.what, on: n.id, node: strings.HasPrefix(r.rpc, "Node")}
	w.busy[r.object] = mine
	w.mu.Unlock()
	var end error
	work := func() { // at the end of the driver's work
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.busy, r.object)
		switch {
		case w.root.Err() != nil || mine.lost:
			end = errGone
		case f.before != codes.OK:
			end = status.Error(f.before, "played before the effect")
			w.tell("driver: %s fails before its effect: %s", r.what, f.before)
		default:
			end = r.effect(reply)
		}
	}
	if f.late > 0 { // the answer comes before the effect
		w.mu.Lock()
		mine.given = true
		w.mu.Unlock()
		alone := !r.sleep(ctx, f.took)
		time.AfterFunc(f.late, work)
		if alone {
			return unanswered(ctx), false
		}
		return status.Error(f.after, "played before the effect, which comes late"), true
	}
	if !r.sleep(ctx, f.took) { // a call that its caller gave up goes on
		w.mu.Lock()
		mine.given = true
		w.mu.Unlock()
		time.AfterFunc(f.took/2, work)
		return unanswered(ctx), false
	}
	work()
	if end == nil && f.after != codes.OK {
		end = status.Error(f.after, "played after the effect")
	}
	proto.Merge(into, reply)
	return end, end != errGone
}

// hangs reports whether a call is about the machine that is dead for good; the lock is held.
func (w *World) hangs(args proto.Message) bool {
	at, ok := args.(interface{ GetNodeId() string })
	return ok && w.dead != nil && at.GetNodeId() == provider(w.dead.id)
}

// made reports whether the provider has a volume of that name; the lock is held.
func (w *World) made(name string) bool {
	return slices.ContainsFunc(w.storage.Known(), func(k fake.Known) bool { return k.Name == name })
}

// sleep waits, and reports whether somebody waits for the answer all the time: neither has ctx ended nor has the
// agent died.
func (r *request) sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-r.a.ctx.Done():
	}
	return false
}

func unanswered(ctx context.Context) error {
	if ctx.Err() == nil {
		return errGone
	}
	return status.FromContextError(ctx.Err()).Err()
}

// working is a call that a driver works on.
type working struct {
	what, on string
	node     bool
	// given is set when nobody waits for the answer any more.
	given bool
	// lost is set when the process died: the effect does not come.
	lost bool
}

// fate is what the dice say of a call.
type fate struct {
	took          time.Duration
	before, after codes.Code
	// late is for how long the effect comes after the answer.
	late time.Duration
}

// passing are codes that come and go, odd ones what the CSI specification names for calls, whether it is so or not.
var (
	passing = []codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.Aborted, codes.Internal, codes.Unknown}
	odd     = map[string][]codes.Code{
		"CreateVolume":              {codes.InvalidArgument, codes.AlreadyExists, codes.ResourceExhausted, codes.OutOfRange, codes.Unauthenticated},
		"DeleteVolume":              {codes.FailedPrecondition, codes.Unauthenticated, codes.PermissionDenied},
		"ControllerPublishVolume":   {codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.ResourceExhausted, codes.InvalidArgument, codes.PermissionDenied},
		"ControllerUnpublishVolume": {codes.NotFound, codes.FailedPrecondition, codes.InvalidArgument, codes.PermissionDenied},
		"ControllerExpandVolume":    {codes.FailedPrecondition, codes.OutOfRange, codes.Unauthenticated},
		"NodeStageVolume":           {codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.ResourceExhausted, codes.Unauthenticated},
		"NodePublishVolume":         {codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.ResourceExhausted, codes.InvalidArgument},
		"NodeUnpublishVolume":       {codes.NotFound, codes.InvalidArgument, codes.FailedPrecondition},
		"NodeUnstageVolume":         {codes.NotFound, codes.InvalidArgument, codes.FailedPrecondition},
		"NodeExpandVolume":          {codes.NotFound, codes.FailedPrecondition, codes.OutOfRange},
	}
)

func (w *World) fate(r *rand.Rand, rpc string) (f fate) {
	most := 60 * time.Millisecond
	if strings.HasPrefix(rpc, "Node") {
		most = 400 * time.Millisecond
	}
	f.took = w.some(r, most)
	if w.faulty(r, 3) {
		f.took = w.some(r, 18*time.Second)
	}
	code := passing[r.IntN(len(passing))]
	late := w.some(r, 10*time.Second)
	if list := odd[rpc]; len(list) > 0 && r.IntN(5) == 0 {
		f.before = list[r.IntN(len(list))]
	} else {
		f.before = code
	}
	if !w.faulty(r, 6) {
		f.before = codes.OK
	}
	if w.faulty(r, 5) {
		f.after = code
	}
	if w.faulty(r, 4) {
		f.after, f.before, f.late = codes.DeadlineExceeded, codes.OK, f.took+late
	}
	return f
}

// effect does what the call asks for, and looks at what that means; the lock is held.
func (r *request) effect(reply proto.Message) error {
	w, n := r.a.n.w, r.a.n
	switch m := r.args.(type) {
	case *pb.ControllerPublishVolumeRequest:
		w.mayAttach(m.GetVolumeId(), m.GetNodeId(), modeOf(m.GetVolumeCapability()))
	case *pb.ControllerUnpublishVolumeRequest:
		w.mayDetach(m.GetVolumeId(), m.GetNodeId())
	case *pb.DeleteVolumeRequest:
		w.mayDelete(m.GetVolumeId())
	case *pb.ControllerExpandVolumeRequest:
		w.mayExpand(m.GetVolumeId())
	case *pb.NodePublishVolumeRequest:
		n.mayPublish(m)
	case *pb.NodeUnpublishVolumeRequest:
		n.mayUnpublish(m.GetTargetPath())
	case *pb.NodeUnstageVolumeRequest:
		n.mayUnstage(m.GetVolumeId())
	}
	err := r.to.Invoke(context.Background(), r.method, r.args, reply)
	w.tally.Events++
	w.tell("driver: %s%s", r.what, orError(err))
	w.judged()
	w.checkOutside()
	return err
}

var accessModes = map[pb.VolumeCapability_AccessMode_Mode]api.AccessMode{
	pb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER:        api.AccessSingleNodeWriter,
	pb.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:   api.AccessSingleNodeReader,
	pb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER: api.AccessSingleNodeSingle,
	pb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:  api.AccessSingleNodeMulti,
	pb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY:    api.AccessMultiNodeReader,
	pb.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER:  api.AccessMultiNodeSingleWriter,
	pb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:   api.AccessMultiNodeMultiWriter,
}

func modeOf(c *pb.VolumeCapability) api.AccessMode { return accessModes[c.GetAccessMode().GetMode()] }
