package shape

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"
)

// DepthMax is how deep lists and maps of any type may be nested.
const DepthMax = 128

var timeType = reflect.TypeFor[time.Time]()

// dated rejects times that have no text form.
func dated(v reflect.Value) *flaw {
	if year := v.Interface().(time.Time).Year(); year < 0 || year > 9999 {
		return &flaw{why: fmt.Sprintf("is in the year %d; years from 0 to 9999 are possible", year)}
	}
	return nil
}

func finite(v reflect.Value) *flaw {
	if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
		return &flaw{why: fmt.Sprintf("is %v, which is no finite number", f)}
	}
	return nil
}

// checkJSONValue validates an untyped value.
func checkJSONValue(v reflect.Value, depth int) *flaw {
	if depth > DepthMax {
		return &flaw{why: fmt.Sprintf("is nested deeper than %d levels", DepthMax), everywhere: true}
	}
	switch v.Kind() {
	case reflect.Interface:
		return checkJSONValue(v.Elem(), depth)
	case reflect.Pointer:
		return checkJSONValue(v.Elem(), depth+1)
	case reflect.Float32, reflect.Float64:
		return finite(v)
	case reflect.Complex64, reflect.Complex128, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return &flaw{why: fmt.Sprintf("is a %s, which JSON does not have", v.Type())}
	case reflect.Struct:
		if v.Type() == timeType {
			return dated(v)
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return nil
		}
		for i := range v.Len() {
			if bad := checkJSONValue(v.Index(i), depth+1); bad != nil {
				return bad.within("[" + strconv.Itoa(i) + "]")
			}
		}
	case reflect.Map:
		for i := v.MapRange(); i.Next(); {
			if bad := checkJSONValue(i.Value(), depth+1); bad != nil {
				return bad.within(fmt.Sprintf("[%q]", fmt.Sprint(i.Key())))
			}
		}
	}
	return nil
}

// within adds a step to the path of what is wrong in one place only.
func (f *flaw) within(step string) *flaw {
	if f.everywhere {
		return f
	}
	return f.at(step)
}
