package endpoint

import (
	"errors"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api/fault"
)

func TestTooLargeBodiesNameTheirLargestField(t *testing.T) {
	t.Parallel()
	many := func(each string) string { return strings.Repeat(each+",", 1_000_000) + each }
	for body, want := range map[string]string{
		`{"Job":{"ID":"j","Meta":{` + many(`"a":"b"`) + `},"TaskGroups":[{"Name":"g"}]}}`:            "Job.Meta is too large: ",
		`{"Job":{"Meta":{"a":"b"},"TaskGroups":[` + many(`{}`) + `]}}`:                               "Job.TaskGroups is too large: ",
		`{"Job":{"TaskGroups":[{"Name":"a"},{"Tasks":[{"Config":{"a \"b":[` + many(`1`) + `]}}]}]}}`: `Job.TaskGroups[1].Tasks[0].Config["a \\\"b"] is too large: `,
		`[` + many(`{}`) + `]`:                                      "the body is too large: ",
		`}]{"a":{"b":[` + many(`[]`):                                "too large: ", // invalid JSON
		`{"` + strings.Repeat("k", 1000) + `":[` + many(`1`) + `]}`: strings.Repeat("k", 64) + " is too large: ",
	} {
		if err := checkStructure([]byte(body)); !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.50s...: %v, want %q", body, err, want)
		}
	}
}

func FuzzStructure(f *testing.F) {
	f.Add([]byte(`{"a":[{"b":"\"}"}]}`), 1)
	f.Add([]byte(`}],"`), 3)
	f.Fuzz(func(_ *testing.T, body []byte, values int) {
		_ = checkStructure(body)
		_ = largestField(body, values)
	})
}
