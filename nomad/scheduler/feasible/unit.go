package feasible

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// unit is a unit of measure: values of one base compare.
type unit struct {
	base   string
	factor float64
}

// units that attributes of devices may have.
var units = map[string]unit{}

func init() {
	add := func(base string, factor float64, names ...string) {
		for _, n := range names {
			units[n] = unit{base, factor}
		}
	}
	for i, prefix := range []string{"k", "M", "G", "T", "P", "E"} {
		names := []string{prefix}
		if prefix == "k" {
			names = append(names, "K")
		}
		for _, p := range names {
			add("byte", math.Pow(1000, float64(i+1)), p+"B")
			add("byte rate", math.Pow(1000, float64(i+1)), p+"B/s")
		}
		binary := strings.ToUpper(prefix) + "iB"
		add("byte", math.Pow(1024, float64(i+1)), binary)
		add("byte rate", math.Pow(1024, float64(i+1)), binary+"/s")
	}
	add("byte", 1, "B")
	add("byte rate", 1, "B/s")
	add("hertz", 1, "Hz")
	add("hertz", 1e3, "kHz", "KHz")
	add("hertz", 1e6, "MHz")
	add("hertz", 1e9, "GHz")
	add("watt", 1e-3, "mW")
	add("watt", 1, "W")
	add("watt", 1e3, "kW", "KW")
	add("watt", 1e6, "MW")
	add("watt", 1e9, "GW")
}

type valueKind uint8

const (
	text valueKind = iota
	number
	boolean
)

// value is an attribute of a device, or what it is compared with.
type value struct {
	kind valueKind
	// text is the value as it is written.
	text string
	num  float64
	// base is the unit's base; numbers without one have none.
	base string
}

func textValue(s string) value { return value{kind: text, text: s} }

// parseValue reads a literal: a number with or without a unit, true or false, else text.
func parseValue(s string) value {
	s = strings.TrimSpace(s)
	if s == "true" || s == "false" {
		return boolValue(s == "true")
	}
	name := strings.TrimSpace(strings.TrimLeft(s, "+-0123456789."))
	u, known := units[name]
	if name != "" && !known {
		return textValue(s)
	}
	f, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(s, name)), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return textValue(s)
	}
	if !known {
		return value{kind: number, text: s, num: f}
	}
	return value{kind: number, text: s, num: f * u.factor, base: u.base}
}

func boolValue(b bool) value {
	v := value{kind: boolean, text: strconv.FormatBool(b)}
	if b {
		v.num = 1
	}
	return v
}

// attributeValue is the value of the attribute, and whether it has one.
func attributeValue(a *api.Attribute) (value, bool) {
	var v value
	switch {
	case a == nil:
		return v, false
	case a.StringVal != nil:
		return textValue(*a.StringVal), true
	case a.BoolVal != nil:
		return boolValue(*a.BoolVal), true
	case a.IntVal != nil:
		v = value{kind: number, num: float64(*a.IntVal), text: strconv.FormatInt(*a.IntVal, 10)}
	case a.FloatVal != nil:
		v = value{kind: number, num: *a.FloatVal, text: strconv.FormatFloat(*a.FloatVal, 'g', -1, 64)}
	default:
		return v, false
	}
	v.base = a.Unit
	if u, known := units[a.Unit]; known {
		v.num, v.base = v.num*u.factor, u.base
	}
	return v, true
}

// compare orders two values; those of different kinds or units have no order.
func (v value) compare(o value) (int, bool) {
	switch {
	case v.kind != o.kind || v.base != o.base:
		return 0, false
	case v.kind == text:
		return strings.Compare(v.text, o.text), true
	}
	return cmp.Compare(v.num, o.num), true
}
