package api

import (
	"maps"
	"slices"
	"time"
)

// DeviceGroupStats is what the instances of a group of equal devices report now, by the id of the instance.
type DeviceGroupStats struct {
	Vendor        string                  `msg:",omitempty"`
	Type          string                  `msg:",omitempty"`
	Name          string                  `msg:",omitempty"`
	InstanceStats map[string]*DeviceStats `msg:",omitempty"`
}

// DeviceStats is what one instance of a device reports: the most telling value, and all values.
type DeviceStats struct {
	Summary   *StatValue  `msg:",omitempty"`
	Stats     *StatObject `msg:",omitempty"`
	Timestamp time.Time   `msg:",omitempty"`
}

// StatObject is a tree of statistics.
type StatObject struct {
	Nested     map[string]*StatObject `msg:",omitempty"`
	Attributes map[string]*StatValue  `msg:",omitempty"`
}

// StatValue is one statistic: a number, a number out of another one, a text or a truth value.
type StatValue struct {
	FloatNumeratorVal   *float64 `json:",omitempty" msg:",omitempty"`
	FloatDenominatorVal *float64 `json:",omitempty" msg:",omitempty"`
	IntNumeratorVal     *int64   `json:",omitempty" msg:",omitempty"`
	IntDenominatorVal   *int64   `json:",omitempty" msg:",omitempty"`
	StringVal           *string  `json:",omitempty" msg:",omitempty"`
	BoolVal             *bool    `json:",omitempty" msg:",omitempty"`
	Unit                string   `json:",omitempty" msg:",omitempty"`
	Desc                string   `json:",omitempty" msg:",omitempty"`
}

// Each calls do for each statistic of the tree, in order; its path is the names from the root, separated by dots.
func (o *StatObject) Each(do func(path string, v *StatValue)) {
	if o == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(o.Attributes)) {
		do(name, o.Attributes[name])
	}
	for _, name := range slices.Sorted(maps.Keys(o.Nested)) {
		o.Nested[name].Each(func(path string, v *StatValue) { do(name+"."+path, v) })
	}
}
