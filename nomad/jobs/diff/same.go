package diff

import (
	"reflect"

	"github.com/open-nomad/open-nomad/api"
)

// Same reports whether two jobs ask for the same. Fields that the servers write do not count.
func Same(a, b *api.Job) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := asked(a), asked(b)
	return same(reflect.ValueOf(x), reflect.ValueOf(y))
}

// Equal compares values of a job as [Same] does: what an encoding does not keep is no difference.
func Equal(a, b any) bool {
	return reflect.DeepEqual(a, b) || same(reflect.ValueOf(a), reflect.ValueOf(b))
}

// asked is a job without what the servers write.
func asked(j *api.Job) api.Job {
	w := *j
	w.Status, w.StatusDescription, w.Stable, w.Version, w.VersionTag = "", "", false, 0, nil
	w.CreateIndex, w.ModifyIndex, w.JobModifyIndex, w.SubmitTime = 0, 0, 0, 0
	return w
}

// SamePolicy reports whether two scaling policies ask for the same.
func SamePolicy(a, b *api.ScalingPolicy) bool {
	x, y := *a, *b
	y.CreateIndex, y.ModifyIndex = x.CreateIndex, x.ModifyIndex
	return same(reflect.ValueOf(x), reflect.ValueOf(y))
}

func same(a, b reflect.Value) bool {
	if !a.IsValid() || !b.IsValid() {
		return a.IsValid() == b.IsValid()
	}
	if a.Type() != b.Type() {
		x, y, ok := numbers(a, b)
		return ok && x == y
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return same(a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice, reflect.Array:
		return sameList(a, b)
	case reflect.Map:
		return sameMap(a, b)
	default:
		return a.Equal(b)
	}
}

func sameList(a, b reflect.Value) bool {
	if a.Len() != b.Len() {
		return false
	}
	for i := range a.Len() {
		if !same(a.Index(i), b.Index(i)) {
			return false
		}
	}
	return true
}

func sameMap(a, b reflect.Value) bool {
	if a.Len() != b.Len() {
		return false
	}
	for _, k := range a.MapKeys() {
		v := b.MapIndex(k)
		if !v.IsValid() || !same(a.MapIndex(k), v) {
			return false
		}
	}
	return true
}

// numbers are the values of free-form numbers: a driver's 1 may be an integer in one encoding and a
// float in another.
func numbers(a, b reflect.Value) (x, y float64, ok bool) {
	x, okA := number(a)
	y, okB := number(b)
	return x, y, okA && okB
}

func number(v reflect.Value) (float64, bool) {
	switch {
	case v.CanInt():
		return float64(v.Int()), true
	case v.CanUint():
		return float64(v.Uint()), true
	case v.CanFloat():
		return v.Float(), true
	default:
		return 0, false
	}
}
