package httpapi_test

import (
	"runtime"
	"strings"
	"testing"
)

// A body that says next to nothing, a million times, would take many times as much memory as it is long.
func TestBodiesOfNothingButStructuresAreRefused(t *testing.T) {
	h := handler(world())
	for _, c := range []struct{ path, head, each, tail, why string }{
		{"/v1/jobs", `{"Job":{"TaskGroups":[`, `{},`, `{}]}}`, "objects in a request body"},
		{"/v1/jobs", `{"Job":{"TaskGroups":[{"Tasks":[{"Config":{"a":[`, `{"":1},`, `1]}}]}]}}`, "objects in a request body"},
		{"/v1/jobs", `{"Job":{"TaskGroups":[{"Tasks":[{"Config":{"a":[`, `1,`, `1]}}]}]}}`, "values in a request body"},
		{"/v1/jobs", `{"Job":{"TaskGroups":[{"Tasks":[{"Config":{"a":[`, `[],`, `1]}}]}]}}`, "values in a request body"},
		{"/v1/node/pools", `{"Name":"p","Meta":[`, `{},`, `{}]}`, "objects in a request body"},
	} {
		size := 15 << 20
		if c.path != "/v1/jobs" {
			size = 1 << 20
		}
		body := c.head + strings.Repeat(c.each, (size-100)/len(c.each)) + c.tail
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w := send(h, "PUT", c.path, body)
		runtime.ReadMemStats(&after)
		expect(t, w, 413, c.why)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 6*uint64(len(body)) { // while it comes
			t.Errorf("refusing %d bytes of %s took %d", len(body), c.each, grown)
		}
	}
}

func TestLongJobsAreTaken(t *testing.T) {
	group := `{"Name":"g","Count":1,"Tasks":[` + strings.Repeat(`{"Name":"t","Driver":"raw_exec","Config":{"command":"x","args":["a","b"]},"Env":{"A":"1","B":"2"}},`, 900) +
		`{"Name":"t","Driver":"raw_exec","Env":{` + strings.Repeat(`"A":"",`, 150_000) + `"B":""}}]}`
	expect(t, send(handler(world()), "PUT", "/v1/jobs", `{"Job":{"ID":"j","TaskGroups":[`+group+`]}}`), 200, "e1")
}
