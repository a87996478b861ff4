package protocol

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/plugins/device"
	"github.com/open-nomad/open-nomad/plugins/driver"
)

// FromGroups makes the messages of groups of devices.
func FromGroups(groups []*api.NodeDeviceResource) (out []*Group) {
	for _, g := range groups {
		to := &Group{Vendor: g.Vendor, Type: g.Type, Name: g.Name, Attributes: map[string]*Attribute{}}
		for _, i := range g.Instances {
			one := &Instance{Id: i.ID, Healthy: i.Healthy, HealthDescription: i.HealthDescription}
			if i.Locality != nil {
				one.PciBusId = i.Locality.PciBusID
			}
			to.Instances = append(to.Instances, one)
		}
		for name, a := range g.Attributes {
			to.Attributes[name] = fromAttribute(a)
		}
		out = append(out, to)
	}
	return out
}

func fromAttribute(a *api.Attribute) *Attribute {
	out := &Attribute{Unit: a.Unit}
	switch {
	case a.FloatVal != nil:
		out.Value = &Attribute_Float{*a.FloatVal}
	case a.IntVal != nil:
		out.Value = &Attribute_Int{*a.IntVal}
	case a.StringVal != nil:
		out.Value = &Attribute_String_{*a.StringVal}
	case a.BoolVal != nil:
		out.Value = &Attribute_Bool{*a.BoolVal}
	}
	return out
}

// ToGroups reads the messages of groups of devices.
func ToGroups(groups []*Group) (out []*api.NodeDeviceResource) {
	for _, g := range groups {
		to := &api.NodeDeviceResource{Vendor: g.GetVendor(), Type: g.GetType(), Name: g.GetName()}
		for _, i := range g.GetInstances() {
			one := &api.NodeDevice{ID: i.GetId(), Healthy: i.GetHealthy(), HealthDescription: i.GetHealthDescription()}
			if i.GetPciBusId() != "" {
				one.Locality = &api.NodeDeviceLocality{PciBusID: i.GetPciBusId()}
			}
			to.Instances = append(to.Instances, one)
		}
		for name, a := range g.GetAttributes() {
			if to.Attributes == nil {
				to.Attributes = map[string]*api.Attribute{}
			}
			to.Attributes[name] = toAttribute(a)
		}
		out = append(out, to)
	}
	return out
}

func toAttribute(a *Attribute) *api.Attribute {
	out := &api.Attribute{Unit: a.GetUnit()}
	switch v := a.GetValue().(type) {
	case *Attribute_Float:
		out.FloatVal = &v.Float
	case *Attribute_Int:
		out.IntVal = &v.Int
	case *Attribute_String_:
		out.StringVal = &v.String_
	case *Attribute_Bool:
		out.BoolVal = &v.Bool
	}
	return out
}

// FromReservation makes the message of a reservation.
func FromReservation(r *device.Reservation) *ReserveResponse {
	out := &ReserveResponse{Envs: r.Envs}
	for _, m := range r.Mounts {
		out.Mounts = append(out.Mounts, &Mount{TaskPath: m.Destination, HostPath: m.Source, ReadOnly: m.ReadOnly})
	}
	for _, d := range r.Devices {
		out.Devices = append(out.Devices, &DeviceNode{TaskPath: d.TaskPath, HostPath: d.HostPath, CgroupPermissions: d.Permissions})
	}
	return out
}

// ToReservation reads the message of a reservation.
func ToReservation(r *ReserveResponse) *device.Reservation {
	out := &device.Reservation{Envs: r.GetEnvs()}
	for _, m := range r.GetMounts() {
		out.Mounts = append(out.Mounts, driver.Mount{Source: m.GetHostPath(), Destination: m.GetTaskPath(), ReadOnly: m.GetReadOnly()})
	}
	for _, d := range r.GetDevices() {
		out.Devices = append(out.Devices, driver.Device{HostPath: d.GetHostPath(), TaskPath: d.GetTaskPath(), Permissions: d.GetCgroupPermissions()})
	}
	return out
}

const (
	statDepth = 8
	// statsMax bounds the values and objects of one message, statText a text.
	statsMax = 16 << 10
	statText = 1024
)

// FromStats makes the messages of statistics.
func FromStats(groups []*api.DeviceGroupStats) (out []*GroupStats) {
	for _, g := range groups {
		to := &GroupStats{Vendor: g.Vendor, Type: g.Type, Name: g.Name, Instances: map[string]*InstanceStats{}}
		for id, s := range g.InstanceStats {
			to.Instances[id] = &InstanceStats{Summary: fromStat(s.Summary), Stats: fromObject(s.Stats), Timestamp: s.Timestamp.UnixNano()}
		}
		out = append(out, to)
	}
	return out
}

func fromObject(o *api.StatObject) *StatObject {
	if o == nil {
		return nil
	}
	out := &StatObject{Nested: map[string]*StatObject{}, Attributes: map[string]*StatValue{}}
	for name, n := range o.Nested {
		out.Nested[name] = fromObject(n)
	}
	for name, v := range o.Attributes {
		out.Attributes[name] = fromStat(v)
	}
	return out
}

func fromStat(v *api.StatValue) *StatValue {
	if v == nil {
		return nil
	}
	return &StatValue{
		FloatNumerator: v.FloatNumeratorVal, FloatDenominator: v.FloatDenominatorVal, IntNumerator: v.IntNumeratorVal, IntDenominator: v.IntDenominatorVal,
		String_: v.StringVal, Bool: v.BoolVal, Unit: v.Unit, Description: v.Desc,
	}
}

// ToStats reads the messages of statistics. It returns an error for more than a plugin may send.
func ToStats(groups []*GroupStats) (out []*api.DeviceGroupStats, err error) {
	r := statReader{left: statsMax}
	for _, g := range groups {
		to := &api.DeviceGroupStats{Vendor: g.GetVendor(), Type: g.GetType(), Name: g.GetName(), InstanceStats: map[string]*api.DeviceStats{}}
		for id, s := range g.GetInstances() {
			to.InstanceStats[id] = &api.DeviceStats{
				Summary: r.value(s.GetSummary()), Stats: r.object(s.GetStats(), statDepth), Timestamp: time.Unix(0, s.GetTimestamp()).UTC(),
			}
			if r.err != nil {
				return nil, r.err
			}
		}
		out = append(out, to)
	}
	return out, nil
}

// statReader counts what it reads.
type statReader struct {
	left int
	err  error
}

func (r *statReader) take(text ...string) bool {
	if r.left--; r.left < 0 {
		r.err = fault.New(fault.Invalid, "it sends more than %d statistics", statsMax)
	}
	for _, t := range text {
		if len(t) > statText {
			r.err = fault.New(fault.Invalid, "it sends a text of more than %d bytes in its statistics", statText)
		}
	}
	return r.err == nil
}

func (r *statReader) object(o *StatObject, depth int) *api.StatObject {
	switch {
	case o == nil || !r.take():
		return nil
	case depth == 0:
		r.err = fault.New(fault.Invalid, "its statistics are nested deeper than %d", statDepth)
		return nil
	}
	out := &api.StatObject{}
	for name, n := range o.GetNested() {
		if r.take(name) {
			if out.Nested == nil {
				out.Nested = map[string]*api.StatObject{}
			}
			out.Nested[name] = r.object(n, depth-1)
		}
	}
	for name, v := range o.GetAttributes() {
		if r.take(name) {
			if out.Attributes == nil {
				out.Attributes = map[string]*api.StatValue{}
			}
			out.Attributes[name] = r.value(v)
		}
	}
	return out
}

func (r *statReader) value(v *StatValue) *api.StatValue {
	if v == nil || !r.take(v.GetString_(), v.GetUnit(), v.GetDescription()) {
		return nil
	}
	return &api.StatValue{
		FloatNumeratorVal: v.FloatNumerator, FloatDenominatorVal: v.FloatDenominator, IntNumeratorVal: v.IntNumerator, IntDenominatorVal: v.IntDenominator,
		StringVal: v.String_, BoolVal: v.Bool, Unit: v.GetUnit(), Desc: v.GetDescription(),
	}
}
