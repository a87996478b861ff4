//go:build invariants

package state

import (
	"fmt"
	"hash/maphash"
	"math"
	"reflect"
	"runtime"
	"sync"
	"time"
)

// The mutation guard hashes every row when it is stored and whenever it is read. When a row has changed
// in between, code that does not own it has written to it, and the program panics.

var (
	guardMu   sync.Mutex
	guardSeed = maphash.MakeSeed()
	guarded   = map[uintptr]uint64{}
)

func (t *Txn) remember(row any) {
	p := reflect.ValueOf(row).Pointer()
	sum := sumOf(row)
	guardMu.Lock()
	_, known := guarded[p]
	guarded[p] = sum
	guardMu.Unlock()
	if !known {
		runtime.AddCleanup((*byte)(reflect.ValueOf(row).UnsafePointer()), forget, p)
	}
}

// forget runs when the row is no longer referenced.
func forget(p uintptr) {
	guardMu.Lock()
	defer guardMu.Unlock()
	delete(guarded, p)
}

func (t *Txn) checked(row any) any {
	guardMu.Lock()
	want, known := guarded[reflect.ValueOf(row).Pointer()]
	guardMu.Unlock()
	if known && sumOf(row) != want {
		panic(fmt.Sprintf("state: a stored %T was changed without Put: %+v", row, redacted(row)))
	}
	return row
}

func sumOf(row any) uint64 {
	return sum(reflect.ValueOf(row).Elem(), map[uintptr]bool{})
}

// sum hashes a value deeply; the order of maps does not matter.
func sum(v reflect.Value, open map[uintptr]bool) uint64 {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return 1
		}
		return 2
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return mix(3, uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return mix(4, v.Uint())
	case reflect.Float32, reflect.Float64:
		return mix(5, math.Float64bits(v.Float()))
	case reflect.String:
		return maphash.String(guardSeed, v.String())
	case reflect.Interface:
		if v.IsNil() {
			return 6
		}
		return mix(7, sum(v.Elem(), open))
	case reflect.Pointer:
		if v.IsNil() || open[v.Pointer()] {
			return 8
		}
		open[v.Pointer()] = true
		defer delete(open, v.Pointer())
		return mix(9, sum(v.Elem(), open))
	case reflect.Slice, reflect.Array:
		h := mix(10, uint64(v.Len()))
		for i := range v.Len() {
			h = mix(h, sum(v.Index(i), open))
		}
		return h
	case reflect.Map:
		var all uint64
		for it := v.MapRange(); it.Next(); {
			all += mix(sum(it.Key(), open), sum(it.Value(), open))
		}
		return mix(11, mix(uint64(v.Len()), all))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() && v.CanInterface() {
			return mix(12, uint64(v.Interface().(time.Time).UnixNano()))
		}
		h := uint64(13)
		for i := range v.NumField() {
			h = mix(h, sum(v.Field(i), open))
		}
		return h
	}
	return 14
}

func mix(a, b uint64) uint64 {
	return maphash.Comparable(guardSeed, [2]uint64{a, b})
}
