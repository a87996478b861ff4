package jsonspec

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/jobspec/bounds"
)

func TestJobsAreDecodedAsThePlainWayDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := jobText(t)
		got, err := Decode([]byte(text))
		want, wantErr := plainDecode([]byte(text))
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%s\nerror %v, the plain way %v", text, err, wantErr)
		}
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			t.Fatalf("%s\ndiffers (-plain +got):\n%s", text, diff)
		}
	})
}

func TestRecordedJobsAreDecodedAsThePlainWayDoes(t *testing.T) {
	paths, _ := filepath.Glob("../testdata/*.json")
	if len(paths) == 0 {
		t.Fatal("no files")
	}
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		want, err := plainDecode(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s differs (-plain +got):\n%s", p, diff)
		}
	}
}

// jobText is a job as programs write it, and as they should not.
func jobText(t *rapid.T) string {
	w := writer{t: t, mistakes: rapid.IntRange(0, 9).Draw(t, "mistakes") == 0}
	w.value(reflect.TypeFor[api.Job](), 0)
	return w.String()
}

type writer struct {
	strings.Builder
	t        *rapid.T
	mistakes bool
}

func (w *writer) one(of int) bool { return rapid.IntRange(1, of).Draw(w.t, "one") == 1 }

func (w *writer) space() {
	w.WriteString(rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r"}).Draw(w.t, "space"))
}

func (w *writer) value(t reflect.Type, depth int) {
	w.space()
	defer w.space()
	switch {
	case w.one(12) && (depth > 0 || w.mistakes):
		w.WriteString("null")
	case w.mistakes && w.one(20):
		w.WriteString(rapid.SampledFrom([]string{`"x"`, "1e3", "-1", "1.5", "true", "[]", "{}", `[null]`, "99999999999999999999", `{"a":1e999}`}).Draw(w.t, "wrong"))
	case t.Kind() == reflect.Pointer:
		w.value(t.Elem(), depth)
	case t == reflect.TypeFor[[]byte]():
		w.WriteString(`"aGVsbG8="`)
	case t.Kind() == reflect.Struct:
		w.object(t, depth)
	case t.Kind() == reflect.Slice:
		w.many("[", "]", func(int) { w.value(t.Elem(), depth) })
	case t.Kind() == reflect.Map:
		w.many("{", "}", func(i int) {
			fmt.Fprintf(w, `"k%d":`, i)
			w.value(t.Elem(), depth+1)
		})
	default:
		w.scalar(t.Kind(), depth)
	}
}

func (w *writer) many(open, end string, item func(i int)) {
	w.WriteString(open)
	for i := range rapid.IntRange(0, 2).Draw(w.t, "items") {
		if i > 0 {
			w.WriteString(",")
		}
		item(i)
	}
	w.WriteString(end)
}

func (w *writer) scalar(k reflect.Kind, depth int) {
	switch k {
	case reflect.String:
		s := rapid.OneOf(rapid.SampledFrom([]string{"", "batch", "system", "<=", "a\xffb"}), rapid.String()).Draw(w.t, "text")
		text, _ := json.Marshal(s)
		if w.one(2) {
			text = []byte(strings.ReplaceAll(string(text), "a", "\\u0061"))
		}
		w.Write(text)
	case reflect.Bool:
		fmt.Fprint(w, w.one(2))
	case reflect.Interface:
		depth++
		kinds := []reflect.Type{reflect.TypeFor[string](), reflect.TypeFor[bool](), reflect.TypeFor[int](), reflect.TypeFor[[]any](), reflect.TypeFor[map[string]any]()}
		if depth > 8 {
			kinds = kinds[:3]
		}
		w.value(rapid.SampledFrom(kinds).Draw(w.t, "free"), depth)
	default:
		fmt.Fprint(w, rapid.OneOf(rapid.SampledFrom([]int{0, 1, 127}), rapid.IntRange(0, 255)).Draw(w.t, "number"))
	}
}

// object writes some members in any order, some twice, some by names in another case.
func (w *writer) object(t reflect.Type, depth int) {
	var names []int
	for i := range t.NumField() {
		if rapid.IntRange(0, 6).Draw(w.t, "there") > min(5, depth) {
			names = append(names, i)
			if w.one(8) && t.Field(i).Name != "Type" {
				names = append(names, i)
			}
		}
	}
	if len(names) > 0 {
		names = rapid.Permutation(names).Draw(w.t, "order")
	}
	change := rapid.SampledFrom([]func(string) string{same, same, strings.ToLower, strings.ToUpper}).Draw(w.t, "case")
	w.WriteString("{")
	if w.one(4) {
		w.WriteString(`"Unknown":{"ID":[1,{}]}`)
		if len(names) > 0 {
			w.WriteString(",")
		}
	}
	for at, i := range names {
		if at > 0 {
			w.WriteString(",")
		}
		w.space()
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		fmt.Fprintf(w, "%q", change(name))
		w.space()
		w.WriteString(":")
		w.value(f.Type, depth+1)
	}
	w.WriteString("}")
}

func same(s string) string { return s }

// The decoder knows no methods, no embedded fields and no keys but texts.
func TestJobsHoldOnlyWhatTheDecoderKnows(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(t reflect.Type) error
	walk = func(t reflect.Type) error {
		if seen[t] {
			return nil
		}
		seen[t] = true
		for _, i := range []reflect.Type{reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler]()} {
			if reflect.PointerTo(t).Implements(i) {
				return fmt.Errorf("%v is a %v", t, i)
			}
		}
		switch t.Kind() {
		case reflect.Map:
			if t.Key() != reflect.TypeFor[string]() {
				return fmt.Errorf("%v has other keys than texts", t)
			}
			return walk(t.Elem())
		case reflect.Pointer, reflect.Slice:
			return walk(t.Elem())
		case reflect.Struct:
			for i := range t.NumField() {
				f := t.Field(i)
				if f.Anonymous || !f.IsExported() {
					return fmt.Errorf("%v has the field %s", t, f.Name)
				}
				if err := walk(f.Type); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := errors.Join(walk(reflect.TypeFor[api.Job]()), walk(reflect.TypeFor[Request]())); err != nil {
		t.Fatal(err)
	}
}

func TestMistakesAreNamedByTheirPath(t *testing.T) {
	for text, want := range map[string]string{
		`{"Type":5}`:                        "job.Type: json: cannot unmarshal number",
		`{"priority":"x"}`:                  "job.priority: json: cannot unmarshal string",
		`{"TaskGroups":[null]}`:             "job.TaskGroups[0] is null",
		`{"TaskGroups":[{},{"Count":1.5}]}`: "job.TaskGroups[1].Count: json: cannot unmarshal number 1.5",
		`{"TaskGroups":[{"Tasks":[{},{"Resources":{"CPU":{}}}]}]}`: "job.TaskGroups[0].Tasks[1].Resources.CPU: json: cannot unmarshal object",
		`{"TaskGroups":[{"Volumes":{"v":null}}]}`:                  "job.TaskGroups[0].Volumes.v is null",
		`{"TaskGroups":[{"Volumes":{"v":{"ReadOnly":0}}}]}`:        "job.TaskGroups[0].Volumes.v.ReadOnly: json: cannot unmarshal number",
		`{"TaskGroups":{}}`: "job.TaskGroups: json: cannot unmarshal object",
		`{"Meta":{"a":1}}`:  "job.Meta.a: json: cannot unmarshal number",
		`[]`:                "job: json: cannot unmarshal array",
		`{"ID":"j"`:         "job: unexpected end of JSON input",
		`{"ID":"j"} x`:      "job: invalid character 'x' after top-level value",
		``:                  "job: unexpected end of JSON input",
	} {
		_, err := Decode([]byte(text))
		if !errors.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestRequestHoldsItsJob(t *testing.T) {
	r, err := DecodeRequest([]byte(`{"job":{"Type":"batch","TaskGroups":[{"RestartPolicy":{}}]},"evalpriority":7,"Submission":{"Source":"x"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if r.Job.TaskGroups[0].RestartPolicy.Attempts != 3 || r.EvalPriority != 7 || r.Submission.Source != "x" {
		t.Fatalf("decoded %+v", r)
	}
	for text, want := range map[string]string{
		`{"EvalPriority":"x"}`: "decode request body.EvalPriority: json: cannot unmarshal string",
		`[]`:                   "decode request body: json: cannot unmarshal array",
		`{`:                    "decode request body: unexpected end of JSON input",
		`{"Job":{"ID":7}}`:     "job.ID: json: cannot unmarshal number",
		`{"Job":` + strings.Repeat("[", bounds.DepthMax+1): "nested deeper than 100 levels",
	} {
		if _, err := DecodeRequest([]byte(text)); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{`{}`, `{"Job":null}`, `null`} {
		if r, err := DecodeRequest([]byte(text)); err != nil || r.Job != nil {
			t.Errorf("%s: got %+v, %v", text, r, err)
		}
	}
}

func FuzzJSONText(f *testing.F) {
	for _, s := range []string{`{"a":[1,-0.5e+3,"\u00e9\n",true,null]}`, `01`, `"\x"`, "\"\x01\"", `[1,]`, `{"a"}`, `-`, `1.`, ` {} `, `tru`, `[1 2]`, `{"a":1,}`, "\"\\u12g4\""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := read([]byte(text), 1000)
		if (err == nil) != json.Valid([]byte(text)) && !errors.Is(err, fault.Invalid) {
			t.Fatalf("%q: got %v", text, err)
		}
		if err == nil {
			var want any
			_ = json.Unmarshal([]byte(text), &want)
			got, ok := (&decoder{document: d}).free(0)
			if ok && !reflect.DeepEqual(got, want) {
				t.Fatalf("%q: got %v, want %v", text, got, want)
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	small := &api.Job{
		ID: "j1", Name: "j1", Type: api.JobTypeService, Datacenters: []string{"*"},
		TaskGroups: []*api.TaskGroup{{
			Name: "g", Count: 1, EphemeralDisk: &api.EphemeralDisk{SizeMB: 10},
			Tasks: []*api.Task{{Name: "t", Driver: "mock_driver", Resources: &api.Resources{CPU: 1, MemoryMB: 10}}},
		}},
	}
	body, err := json.Marshal(small)
	if err != nil {
		b.Fatal(err)
	}
	large, err := os.ReadFile("../testdata/04-task-level.nomad.hcl.canon.json")
	if err != nil {
		b.Fatal(err)
	}
	for name, body := range map[string][]byte{"small": body, "large": large} {
		for way, decode := range map[string]func([]byte) (*api.Job, error){"plain": plainDecode, "ours": Decode} {
			b.Run(name+"/"+way, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					if _, err := decode(body); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
