package plan

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/share"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// The placements of a plan in the log: what they have in common is there once, ids are 16 bytes. What was
// shared when it was packed is shared by the allocations that come out.
//
//	version | number of placements | placement ...
//	placement: pattern, id, name, node, node's name, predecessor, resources, ports, metrics
//
// Templates, ids, strings, resources, counts and scores are in lists that grow during packing: 0 and the
// value for a new one, else its position in the list. A template holds the fields that all allocations of a placement share.
const packVersion = 1

// pack makes the log form of placements.
func pack(places []*api.Allocation) ([]byte, error) {
	p := &packer{
		ids: make(map[string]uint64, len(places)), texts: make(map[string]uint64, len(places)), patterns: map[string]uint64{},
	}
	p.b = append(make([]byte, 0, 128+128*len(places)), packVersion)
	p.number(uint64(len(places)))
	for _, a := range places {
		if err := p.placement(a); err != nil {
			return nil, err
		}
	}
	return p.b, nil
}

type packer struct {
	b, buf               []byte
	ids, texts, patterns map[string]uint64
	pattern              api.Allocation
	last                 latest
	resources            []*api.AllocatedResources
	counts               []*api.AllocationMetric
	scores               share.Scores
}

// latest is the last pattern and its place: most placements of a plan have the same.
type latest struct {
	pattern []byte
	at      uint64
}

func (p *packer) number(n uint64) { p.b = binary.AppendUvarint(p.b, n) }

func (p *packer) bytes(b []byte) {
	p.number(uint64(len(b)))
	p.b = append(p.b, b...)
}

func (p *packer) float(f float64) { p.b = binary.LittleEndian.AppendUint64(p.b, math.Float64bits(f)) }

// known writes the place of a value, or 0 for a new one, which must follow.
func (p *packer) known(list map[string]uint64, value string) bool {
	at := list[value]
	if at == 0 {
		list[value] = uint64(len(list)) + 1
	}
	p.number(at)
	return at != 0
}

func (p *packer) text(s string) {
	if !p.known(p.texts, s) {
		p.bytes([]byte(s))
	}
}

func (p *packer) id(s string) {
	if !p.known(p.ids, s) {
		p.rawID(s)
	}
}

// rawID writes a canonical UUID as its 16 bytes, any other id as text.
func (p *packer) rawID(s string) {
	raw, ok := state.ShortID(s)
	if !ok {
		p.bytes([]byte(s))
		return
	}
	p.number(rawIDMark)
	p.b = append(p.b, raw[:]...)
}

// rawIDMark stands for the length of an id that follows as 16 bytes.
const rawIDMark = math.MaxUint32

func (p *packer) placement(a *api.Allocation) error {
	if err := p.templateOf(a); err != nil {
		return err
	}
	p.rawID(a.ID)
	p.name(a)
	p.id(a.NodeID)
	p.text(a.NodeName)
	p.id(a.PreviousAllocation)
	if err := p.resourcesOf(a.AllocatedResources); err != nil {
		return err
	}
	return p.metrics(a.Metrics)
}

// templateOf writes the fields that the other parts of a placement do not hold.
func (p *packer) templateOf(a *api.Allocation) error {
	p.pattern = *a
	p.pattern.ID, p.pattern.Name, p.pattern.NodeID, p.pattern.NodeName, p.pattern.PreviousAllocation = "", "", "", "", ""
	p.pattern.Job, p.pattern.AllocatedResources, p.pattern.Metrics = nil, nil, nil
	var err error
	if p.buf, err = p.pattern.MarshalMsg(p.buf[:0]); err != nil {
		return fault.New(fault.Internal, "encode placement %s: %w", a.ID, err)
	}
	if p.last.at > 0 && bytes.Equal(p.buf, p.last.pattern) {
		p.number(p.last.at)
		return nil
	}
	text := string(p.buf)
	if !p.known(p.patterns, text) {
		p.bytes(p.buf)
	}
	p.last = latest{append(p.last.pattern[:0], p.buf...), p.patterns[text]}
	return nil
}

// name writes the number in a name, or 0 and the name where it is not made of job, group and number.
func (p *packer) name(a *api.Allocation) {
	rest, ok := strings.CutPrefix(a.Name, a.JobID+"."+a.TaskGroup+"[")
	if n, err := strconv.ParseUint(strings.TrimSuffix(rest, "]"), 10, 32); ok && err == nil && a.Name == nameOf(a, n) {
		p.number(n + 1)
		return
	}
	p.number(0)
	p.bytes([]byte(a.Name))
}

func nameOf(a *api.Allocation, n uint64) string {
	return a.JobID + "." + a.TaskGroup + "[" + strconv.FormatUint(n, 10) + "]"
}

// resourcesOf writes resources without ports, and then the ports.
func (p *packer) resourcesOf(r *api.AllocatedResources) error {
	if r == nil {
		p.number(math.MaxUint32)
		return nil
	}
	at := share.Latest(p.resources, func(o *api.AllocatedResources) bool { return share.SameResources(o, r) })
	p.number(uint64(at))
	if at == 0 {
		bare := *r
		bare.Shared.Ports = nil
		p.resources = append(p.resources, &bare)
		var err error
		if p.buf, err = bare.MarshalMsg(p.buf[:0]); err != nil {
			return fault.New(fault.Internal, "encode resources: %w", err)
		}
		p.bytes(p.buf)
	}
	p.number(uint64(len(r.Shared.Ports)))
	for _, port := range r.Shared.Ports {
		p.text(port.Label)
		p.b = binary.AppendVarint(p.b, int64(port.Value))
		p.b = binary.AppendVarint(p.b, int64(port.To))
		p.text(port.HostIP)
	}
	return nil
}

// metrics writes the counts, the time and the scores.
func (p *packer) metrics(m *api.AllocationMetric) error {
	if m == nil {
		p.number(math.MaxUint32)
		return nil
	}
	at := share.Latest(p.counts, func(o *api.AllocationMetric) bool { return share.SameCounts(o, m) })
	p.number(uint64(at))
	if at == 0 {
		bare := *m
		bare.ScoreMetaData, bare.AllocationTime = nil, 0
		p.counts = append(p.counts, &bare)
		var err error
		if p.buf, err = bare.MarshalMsg(p.buf[:0]); err != nil {
			return fault.New(fault.Internal, "encode metrics: %w", err)
		}
		p.bytes(p.buf)
	}
	p.b = binary.AppendVarint(p.b, int64(m.AllocationTime))
	p.number(uint64(len(m.ScoreMetaData)))
	for _, s := range m.ScoreMetaData {
		p.id(s.NodeID)
		p.float(s.NormScore)
		p.scoresOf(s.Scores)
	}
	return nil
}

func (p *packer) scoresOf(scores map[string]float64) {
	at := p.scores.Place(scores)
	p.number(uint64(at))
	if at != 0 {
		return
	}
	p.number(uint64(len(scores)))
	for _, name := range slices.Sorted(maps.Keys(scores)) {
		p.text(name)
		p.float(scores[name])
	}
}
