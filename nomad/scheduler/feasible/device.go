package feasible

import (
	"math"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// Device is what a task asks of devices: enough free instances of one group of equal devices.
type Device struct {
	// Name is type, vendor/type or vendor/type/model.
	Name  string
	Count int

	vendor, kind, model string
	rules               []deviceRule
	preferences         []deviceRule
	weights             []float64
}

// NewDevice prepares a request.
func NewDevice(r *api.RequestedDevice) *Device {
	d := &Device{Name: r.Name, Count: max(int(r.Count), 1)}
	parts := strings.SplitN(r.Name, "/", 3)
	switch len(parts) {
	case 1:
		d.kind = parts[0]
	case 2:
		d.vendor, d.kind = parts[0], parts[1]
	default:
		d.vendor, d.kind, d.model = parts[0], parts[1], parts[2]
	}
	for _, c := range r.Constraints {
		d.rules = append(d.rules, newDeviceRule(c.LTarget, c.Operand, c.RTarget))
	}
	for _, a := range r.Affinities {
		d.preferences = append(d.preferences, newDeviceRule(a.LTarget, a.Operand, a.RTarget))
		d.weights = append(d.weights, float64(a.Weight))
	}
	return d
}

// Devices prepares the requests of a task.
func Devices(t *api.Task) []*Device {
	if t.Resources == nil {
		return nil
	}
	var all []*Device
	for _, r := range t.Resources.Devices {
		if r != nil {
			all = append(all, NewDevice(r))
		}
	}
	return all
}

// Fits reports whether the devices of the group are what is asked for; how many are free is another question.
func (d *Device) Fits(g *api.NodeDeviceResource) bool {
	if d.kind != g.Type || d.vendor != "" && d.vendor != g.Vendor || d.model != "" && d.model != g.Name {
		return false
	}
	return !slices.ContainsFunc(d.rules, func(r deviceRule) bool { return !r.holds(g) })
}

// Prefers reports whether the request has affinities.
func (d *Device) Prefers() bool { return len(d.preferences) > 0 }

// Score is the weight of the affinities that the group matches, and the sum of all without their signs.
func (d *Device) Score(g *api.NodeDeviceResource) (matched, total float64) {
	for i, w := range d.preferences {
		total += math.Abs(d.weights[i])
		if w.holds(g) {
			matched += d.weights[i]
		}
	}
	return matched, total
}

// offers reports whether the node has enough healthy devices for the request, whoever uses them.
func (d *Device) offers(n *api.Node) bool {
	if n.NodeResources == nil {
		return false
	}
	for _, g := range n.NodeResources.Devices {
		if g == nil || !d.Fits(g) {
			continue
		}
		healthy := 0
		for _, i := range g.Instances {
			if i != nil && i.Healthy {
				healthy++
			}
		}
		if healthy >= d.Count {
			return true
		}
	}
	return false
}

// deviceRule is a constraint on devices, or the condition of an affinity to them.
type deviceRule struct {
	operand     string
	left, right string
	test        func(left, right string) bool
}

func newDeviceRule(left, operand, right string) deviceRule {
	r := deviceRule{operand: operandOf(operand), left: left, right: right}
	switch r.operand {
	case "<", "<=", ">", ">=":
	default:
		r.test = testOf(r.operand)
	}
	return r
}

func (r deviceRule) holds(g *api.NodeDeviceResource) bool {
	left, haveLeft := deviceValue(r.left, g)
	right, haveRight := deviceValue(r.right, g)
	switch r.operand {
	case api.ConstraintAttributeIsSet:
		return haveLeft
	case api.ConstraintAttributeIsNotSet:
		return !haveLeft
	case "!=":
		if haveLeft != haveRight {
			return true
		}
	}
	if !haveLeft || !haveRight {
		return false
	}
	switch r.operand {
	case "=", "!=", "<", "<=", ">", ">=":
		c, comparable := left.compare(right)
		if left.kind == boolean && r.operand != "=" && r.operand != "!=" {
			return false
		}
		return comparable && ordered(r.operand, c)
	}
	if r.test == nil || left.kind == boolean || right.kind == boolean {
		return false
	}
	return r.test(left.text, right.text)
}

// deviceValue is one side of a rule about a group of devices, and whether it is there.
func deviceValue(target string, g *api.NodeDeviceResource) (value, bool) {
	inner, isRef := strings.CutPrefix(target, "${")
	inner, closed := strings.CutSuffix(inner, "}")
	if !isRef || !closed {
		return parseValue(target), true
	}
	switch inner = strings.TrimSpace(inner); inner {
	case "device.vendor":
		return textValue(g.Vendor), true
	case "device.type":
		return textValue(g.Type), true
	case "device.model":
		return textValue(g.Name), true
	case "device.ids":
		var ids []string
		for _, i := range g.Instances {
			if i != nil {
				ids = append(ids, i.ID)
			}
		}
		return textValue(strings.Join(ids, ",")), true
	}
	name, ok := strings.CutPrefix(inner, "device.attr.")
	if !ok {
		return value{}, false
	}
	return attributeValue(g.Attributes[name])
}
