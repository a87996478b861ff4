package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// command sends a command of the protocol to the browser.
func (b *browser) command(name string, in map[string]any, out any) {
	b.t.Helper()
	b.do(name, chromedp.ActionFunc(func(ctx context.Context) error { return cdp.Execute(ctx, name, in, out) }))
}

// ordered checks that the page has one heading of the first level and leaves out no level.
func (b *browser) ordered() {
	b.t.Helper()
	levels := eval[string](b, "[...document.querySelectorAll('h1, h2, h3, h4')].map((e) => e.tagName[1]).join('')")
	if strings.Count(levels, "1") != 1 || levels[0] != '1' || strings.Contains(levels, "13") {
		b.t.Errorf("%s: headings %s", eval[string](b, "location.pathname"), levels)
	}
}

// Pages are whole and narrow with a name of 128 bytes with quotes, markup and text from right to left, have headings in
// order, work with the keyboard only, show no negative ages on a machine whose clock is wrong, and are in no foreign frame.
func TestPageWithOddInput(t *testing.T) {
	a := kit.Start(t)
	j := kit.ShellJob(`odd"'<b>`+strings.Repeat("x", 100), "exec sleep 1000")
	name := `"שלום" <b>'` + strings.Repeat("w", 128-len(`"שלום" <b>'`))
	j.Name = &name
	a.Register(j)
	alloc := a.Running(*j.ID, 1)
	b := newBrowser(t, a.API.Address())
	b.command("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": "{ const real = Date.now; Date.now = () => real() - 3600e3; }"}, nil)
	b.command("Emulation.setDeviceMetricsOverride", map[string]any{"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.signIn(kit.Token())
	for _, path := range []string{
		"/ui/jobs", "/ui/jobs/" + seg(*j.ID) + "@default", "/ui/jobs/" + seg(*j.ID) + "@default/definition", "/ui/jobs/run", "/ui/allocations/" + alloc.ID, "/ui/clients", "/ui/clients/" + alloc.NodeID,
		"/ui/evaluations/" + alloc.EvalID, "/ui/storage", "/ui/storage/volumes/create", "/ui/topology", "/ui/servers", "/ui/variables/new", "/ui/access-control", "/ui/events", "/ui/settings/tokens",
	} {
		b.visit(path)
		b.until("the page", "!document.querySelector('[aria-busy]')")
		if wide := eval[int](b, "document.documentElement.scrollWidth"); wide > 360 {
			t.Errorf("%s is %d pixels wide", path, wide)
		}
		if future := eval[string](b, "[...document.querySelectorAll('main time')].map((e) => e.textContent).find((x) => x.startsWith('in ')) || ''"); future != "" {
			t.Errorf("%s shows the age %q", path, future)
		}
		b.ordered()
		b.accessible()
	}
	b.visit("/ui/jobs")
	b.see(`"שלום" <b>'www`)

	// The keyboard only: the first key reaches the link to the content, a key opens the search, Enter follows its result.
	b.keys(kb.Tab)
	if at := eval[string](b, "document.activeElement.tagName + getComputedStyle(document.activeElement).outlineStyle"); at == "BODYnone" || strings.HasSuffix(at, "none") {
		t.Errorf("after a tab the focus is on %s", at)
	}
	b.keys("/")
	b.until("the search", "document.querySelector('dialog.finder[open]')")
	b.keys("odd")
	b.until("a result", "document.querySelector('.finder [role=option]')")
	b.keys(kb.Enter)
	b.until("the page of the allocation", "location.pathname === '/ui/allocations/"+alloc.ID+"'")

	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, "<main>portal</main><iframe src=%q></iframe>", a.API.Address()+"/ui/jobs")
	}))
	defer foreign.Close()
	b.clean() // the refusal is an error in the console
	b.base = foreign.URL
	b.visit("/")
	var tree struct {
		FrameTree struct {
			ChildFrames []struct {
				Frame struct {
					URL            string `json:"url"`
					UnreachableURL string `json:"unreachableUrl"`
				} `json:"frame"`
			} `json:"childFrames"`
		} `json:"frameTree"`
	}
	b.until("the frame", "document.readyState === 'complete'")
	b.command("Page.getFrameTree", nil, &tree)
	if frames := tree.FrameTree.ChildFrames; len(frames) != 1 || !strings.HasPrefix(frames[0].Frame.URL, "chrome-error:") {
		t.Errorf("the page is in a foreign frame: %+v", frames)
	}
}

func seg(text string) string {
	return strings.NewReplacer(`"`, "%22", "<", "%3C", ">", "%3E", "'", "%27").Replace(text)
}
