package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// waitMax bounds each wait for the page; it only finds hangs.
const waitMax = 60 * time.Second

// browser is one tab of a browser without a screen.
type browser struct {
	t    testing.TB
	ctx  context.Context //nolint:containedctx // of the tab
	base string

	mu     sync.Mutex
	errors []string
}

// newBrowser starts a browser that ends with the test.
func newBrowser(t testing.TB, base string) *browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if at, err := exec.LookPath(name); err == nil {
			program = at
			break
		}
	}
	if program == "" {
		t.Fatal("no chromium in the PATH: install it, see .ci/tools")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.WindowSize(1280, 1000), chromedp.WSURLReadTimeout(waitMax))
	program0, endProgram := chromedp.NewExecAllocator(t.Context(), options...)
	ctx, end := chromedp.NewContext(program0)
	t.Cleanup(func() { end(); endProgram() })
	b := &browser{t: t, ctx: ctx, base: base}
	chromedp.ListenTarget(ctx, b.listen)
	b.do("start the browser", log.Enable(), runtime.Enable())
	return b
}

// listen records what the console shows as an error. Refused requests are expected where the test lacks rights.
func (b *browser) listen(event any) {
	text := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text = e.ExceptionDetails.Error()
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			for _, a := range e.Args {
				text += string(a.Value) + a.Description + " "
			}
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError && e.Entry.Source != log.SourceNetwork {
			text = e.Entry.Text
		}
	}
	if text != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.errors = append(b.errors, text)
	}
}

// clean fails the test if the console has errors.
func (b *browser) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.errors) > 0 {
		b.t.Errorf("the console has errors:\n%s", strings.Join(b.errors, "\n"))
	}
}

func (b *browser) do(what string, actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// visit loads an address of the page, again if other tests change the network of the machine meanwhile.
func (b *browser) visit(path string) {
	b.t.Helper()
	for end := time.Now().Add(waitMax); ; time.Sleep(200 * time.Millisecond) {
		err := chromedp.Run(b.ctx, chromedp.Navigate(b.base+path))
		for wait := time.Now().Add(10 * time.Second); err == nil && time.Now().Before(wait); time.Sleep(20 * time.Millisecond) {
			if eval[bool](b, "!!document.querySelector('main')?.textContent") {
				return
			}
		}
		if time.Now().After(end) {
			b.t.Fatalf("load %s: %v", path, err)
		}
	}
}

// eval evaluates an expression in the page.
func eval[T any](b *browser, script string) (out T) {
	b.t.Helper()
	b.do(script, chromedp.Evaluate(script, &out))
	return out
}

func quoted(text string) string {
	out, _ := json.Marshal(text)
	return string(out)
}

// text is what the page shows.
func (b *browser) text() string {
	return eval[string](b, "document.body.innerText")
}

// exec runs a script in the page.
func (b *browser) exec(script string) {
	b.t.Helper()
	eval[bool](b, "("+script+", true)")
}

// until waits for an expression to be true.
func (b *browser) until(what, script string) {
	b.t.Helper()
	for end := time.Now().Add(waitMax); !eval[bool](b, "!!("+script+")"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("waited for %s; %s shows:\n%s", what, eval[string](b, "location.pathname"), b.text())
		}
	}
}

// see waits for a text on the page.
func (b *browser) see(texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		b.until(fmt.Sprintf("%q", text), "document.body?.innerText.includes("+quoted(text)+")") // the browser may load a page
	}
}

// click presses a button or a link with the text, in the open dialog if there is one.
func (b *browser) click(text string) {
	b.t.Helper()
	found := "[...(document.querySelector('dialog[open]') || document).querySelectorAll('button:not(:disabled), a, .as-button')].find((e) => e.textContent.trim() === " + quoted(text) + ")"
	b.until("the button "+text, found)
	b.exec(found + ".click()")
}

// press clicks buttons one after the other and waits for what follows, again if the network changed under the request.
func (b *browser) press(outcome string, buttons ...string) {
	b.t.Helper()
	for range 3 {
		for _, text := range buttons {
			b.click(text)
		}
		lost := "document.body.innerText.includes('The agent cannot be reached')"
		b.until(outcome, "("+outcome+") || "+lost)
		if !eval[bool](b, lost) {
			return
		}
		b.until("the agent", "!document.body.innerText.includes('Disconnected')")
		b.exec("document.querySelectorAll('.toast').forEach((e) => e.remove())")
	}
	b.t.Fatalf("%v: the agent was not reached", buttons)
}

// fill types a text into the field that a selector finds.
func (b *browser) fill(selector, text string) {
	b.t.Helper()
	field := "document.querySelector(" + quoted(selector) + ")"
	b.until("the field "+selector, field)
	b.exec("(() => { const e = " + field + "; e.value = " + quoted(text) + "; e.dispatchEvent(new Event('input', {bubbles: true})); })()")
}

// accessible checks that each control has a name for screen readers.
func (b *browser) accessible() {
	b.t.Helper()
	type value struct {
		Value any `json:"value"`
	}
	var tree struct {
		Nodes []struct {
			Ignored bool  `json:"ignored"`
			Role    value `json:"role"`
			Name    value `json:"name"`
		} `json:"nodes"`
	}
	b.do("read the accessibility tree", chromedp.ActionFunc(func(ctx context.Context) error { // a newer browser has more values than the library
		return cdp.Execute(ctx, "Accessibility.getFullAXTree", nil, &tree)
	}))
	controls := 0
	for _, n := range tree.Nodes {
		switch n.Role.Value {
		case "button", "link", "textbox", "searchbox", "combobox", "checkbox", "navigation", "region":
			if n.Ignored {
				continue
			}
			controls++
			if n.Name.Value == nil || n.Name.Value == "" {
				b.t.Errorf("%s: a %s has no name", eval[string](b, "location.pathname"), n.Role.Value)
			}
		}
	}
	if controls < 6 { // a narrow window hides the menu
		b.t.Errorf("the accessibility tree has %d controls", controls)
	}
}

// choose selects an option of a list of choices.
func (b *browser) choose(selector, value string) {
	b.t.Helper()
	field := "document.querySelector(" + quoted(selector) + ")"
	b.until("the choice "+selector, field)
	b.exec("(() => { const e = " + field + "; e.value = " + quoted(value) + "; e.dispatchEvent(new Event('change', {bubbles: true})); })()")
}

// signIn opens the page with a token; an empty one is none.
func (b *browser) signIn(token string) {
	b.t.Helper()
	b.visit("/ui/settings/tokens")
	b.exec("sessionStorage.setItem('token', " + quoted(token) + ")")
}

// keys types into the element that has the focus.
func (b *browser) keys(text string) {
	b.t.Helper()
	b.do("type", chromedp.KeyEvent(text))
}
