package plan

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/api/shape"
	"github.com/open-nomad/open-nomad/nomad/share"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// unpack returns the placements of a plan's log form. They share what the pool has seen.
func unpack(b []byte, alike *share.Pool) ([]*api.Allocation, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if b[0] != packVersion {
		return nil, fault.New(fault.Invalid, "placements have version %d; this program reads version %d", b[0], packVersion)
	}
	u := &unpacker{b: b[1:], alike: alike}
	n := u.number()
	if n > uint64(len(b))/8 {
		return nil, fault.New(fault.Invalid, "%d placements in %d bytes", n, len(b))
	}
	places := make([]*api.Allocation, n)
	for i := range places {
		places[i] = &api.Allocation{} // each of its own: what replaces one frees it
		u.placement(places[i])
	}
	if u.err == nil && len(u.b) > 0 {
		u.fail("%d bytes are left over", len(u.b))
	}
	return places, u.err
}

// unpacker reads what a packer wrote; after the first error it reads nothing more.
type unpacker struct {
	b          []byte
	alike      *share.Pool
	err        error
	ids, texts []string
	patterns   []*api.Allocation
	resources  []*api.AllocatedResources
	counts     []*api.AllocationMetric
	scores     []map[string]float64
}

func (u *unpacker) fail(format string, args ...any) {
	if u.err == nil {
		u.err = fault.New(fault.Invalid, "placements of a plan: "+format, args...)
	}
	u.b = nil
}

func (u *unpacker) number() uint64 {
	n, size := binary.Uvarint(u.b)
	if size <= 0 {
		u.fail("a number is cut")
		return 0
	}
	u.b = u.b[size:]
	return n
}

func (u *unpacker) signed() int64 {
	n, size := binary.Varint(u.b)
	if size <= 0 {
		u.fail("a number is cut")
		return 0
	}
	u.b = u.b[size:]
	return n
}

func (u *unpacker) take(n uint64) []byte {
	if n > uint64(len(u.b)) {
		u.fail("%d bytes of %d", n, len(u.b))
		return nil
	}
	b := u.b[:n]
	u.b = u.b[n:]
	return b
}

func (u *unpacker) float() float64 {
	b := u.take(8)
	if b == nil {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}

// among reads the place of a value in a list; read makes a new one.
func among[T any](u *unpacker, list *[]T, read func() T) (value T) {
	switch at := u.number(); {
	case u.err != nil:
	case at == 0:
		value = read()
		*list = append(*list, value)
	case at > uint64(len(*list)):
		u.fail("value %d of %d", at, len(*list))
	default:
		value = (*list)[at-1]
	}
	return value
}

func (u *unpacker) text() string {
	return among(u, &u.texts, func() string { return string(u.take(u.number())) })
}

func (u *unpacker) id() string { return among(u, &u.ids, u.rawID) }

func (u *unpacker) rawID() string {
	n := u.number()
	if n != rawIDMark {
		return string(u.take(n))
	}
	if raw := u.take(16); raw != nil {
		return state.LongID([16]byte(raw))
	}
	return ""
}

func (u *unpacker) placement(a *api.Allocation) {
	pattern := among(u, &u.patterns, func() *api.Allocation {
		p := &api.Allocation{}
		u.decode(p)
		return p
	})
	if u.err != nil {
		return
	}
	*a = *pattern
	a.ID = u.rawID()
	if n := u.number(); n > 0 {
		a.Name = nameOf(a, n-1)
	} else {
		a.Name = string(u.take(u.number()))
	}
	a.NodeID, a.NodeName, a.PreviousAllocation = u.id(), u.text(), u.id()
	a.AllocatedResources, a.Metrics = u.resourcesOf(), u.metrics()
}

func (u *unpacker) decode(into interface {
	UnmarshalMsg([]byte) ([]byte, error)
},
) {
	rest, err := into.UnmarshalMsg(u.take(u.number()))
	if err == nil && u.err == nil {
		err = shape.Check(into) // the check of decoded commands does not see packed parts
	}
	if err != nil || len(rest) > 0 {
		u.fail("decode %T, %d bytes left: %v", into, len(rest), err)
	}
}

// absent reads a mark that stands for nil.
func (u *unpacker) absent() bool {
	n, size := binary.Uvarint(u.b)
	if size > 0 && n == math.MaxUint32 {
		u.b = u.b[size:]
		return true
	}
	return false
}

// The minimum size in bytes of a port and of a score: they bound the memory that is allocated for a list.
const portBytes, scoreBytes = 4, 9

func (u *unpacker) resourcesOf() *api.AllocatedResources {
	if u.absent() {
		return nil
	}
	shared := among(u, &u.resources, func() *api.AllocatedResources {
		r := &api.AllocatedResources{}
		u.decode(r)
		return u.alike.Resources(r)
	})
	n := u.number()
	if n == 0 || u.err != nil {
		return shared
	}
	if n > uint64(len(u.b))/portBytes {
		u.fail("%d ports in %d bytes", n, len(u.b))
		return nil
	}
	own := *shared
	own.Shared.Ports = make([]api.PortMapping, n)
	for i := range own.Shared.Ports {
		own.Shared.Ports[i] = api.PortMapping{Label: u.text(), Value: int(u.signed()), To: int(u.signed()), HostIP: u.text()}
	}
	return &own
}

func (u *unpacker) metrics() *api.AllocationMetric {
	if u.absent() {
		return nil
	}
	shared := among(u, &u.counts, func() *api.AllocationMetric {
		m := &api.AllocationMetric{}
		u.decode(m)
		return u.alike.Counts(m)
	})
	took, n := u.signed(), u.number()
	if n > uint64(len(u.b))/scoreBytes {
		u.fail("%d scores in %d bytes", n, len(u.b))
	}
	if u.err != nil || n == 0 && took == 0 {
		return shared
	}
	own := *shared
	own.AllocationTime = time.Duration(took)
	if n > 0 {
		metas := make([]api.NodeScoreMeta, n)
		own.ScoreMetaData = make([]*api.NodeScoreMeta, n)
		for i := range metas {
			metas[i] = api.NodeScoreMeta{NodeID: u.id(), NormScore: u.float(), Scores: among(u, &u.scores, u.newScores)}
			own.ScoreMetaData[i] = &metas[i]
		}
	}
	return &own
}

func (u *unpacker) newScores() map[string]float64 {
	n := u.number()
	if n > uint64(len(u.b))/scoreBytes {
		u.fail("%d scores in %d bytes", n, len(u.b))
		return nil
	}
	m := make(map[string]float64, n)
	for range n {
		name := u.text()
		m[name] = u.float()
	}
	return m
}
