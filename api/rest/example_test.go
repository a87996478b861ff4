package rest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/open-nomad/open-nomad/api/rest"
)

// A read may wait for news: with an index it returns when the answer is newer, and tells the next index.
func ExampleClient_Jobs() {
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Nomad-Index", "12")
		fmt.Fprintf(w, `[{"ID":"web","Status":"running","Namespace":%q}]`, r.URL.Query().Get("namespace"))
	}))
	defer agent.Close()

	c, err := rest.New(rest.Config{Address: agent.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	jobs, meta, err := c.Jobs(context.Background(), rest.Query{Namespace: "shop", Index: 11})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, j := range jobs {
		fmt.Println(j.Namespace, j.ID, j.Status, meta.Index)
	}
	// Output: shop web running 12
}
