package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

const jobFile = `job "one" {
  group "app" {
    volume "store" {
      type            = "csi"
      source          = "data"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "main" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do echo a line of the log; sleep 1; done"]
      }
      volume_mount {
        volume      = "store"
        destination = "store"
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
`

// A user signs in, runs a job with a volume, finds out why another job waits for the volume, lets it go on, opens a shell,
// and sees the agent go away and come back.
func TestPageInABrowser(t *testing.T) {
	a := kit.PrepareGuarded(t)
	a.Launch()
	a.Plugin("plug")
	a.CreateVolume("plug", "data")
	b := newBrowser(t, a.API.Address())

	b.visit("/ui/")
	b.see("Permission denied", "Sign in with a token")
	b.click("Sign in with a token")
	b.fill("input[name=token]", "00000000-0000-4000-8000-000000000000")
	b.exec("document.querySelector('form').requestSubmit()")
	b.until("the refusal of a wrong token", "document.querySelector('.toast.bad')")
	b.fill("input[name=token]", kit.ManagementToken)
	b.exec("document.querySelector('form').requestSubmit()")
	b.see("Your token", "management")
	b.accessible()

	b.visit("/ui/jobs/run")
	b.fill("textarea.spec", jobFile)
	b.press("document.body.innerText.includes('1 place')", "Plan")
	b.see(`+ job "one"`)
	b.accessible()
	b.press("location.pathname === '/ui/jobs/one@default'", "Run")
	a.Running("one", 1)
	b.until("a running allocation", "[...document.querySelectorAll('[aria-label=Allocations] tbody tr')].some((r) => r.textContent.includes('running'))")
	b.accessible()

	// The name of the second job has markup and a text that runs from right to left.
	two := kit.WithVolume(kit.ShellJob("two", "exec sleep 1000"), "data")
	name := `<img src=x onerror="document.title='broken'"> "quoted" ` + "שלום"
	two.Name = &name
	a.Register(two)
	b.visit("/ui/jobs")
	b.see(`<img src=x onerror="document.title='broken'"> "quoted"`)
	if eval[int](b, "document.querySelectorAll('main img').length") != 0 {
		t.Error("a name became markup")
	}
	b.accessible()
	b.visit("/ui/jobs/two@default")
	b.see("Why allocations wait", `CSI volume "data" is held as single-node-writer by allocation`)

	b.visit("/ui/storage")
	b.see("data", "1 writing")
	b.click("data")
	b.see("held until the allocation ends", `group "g" of job "two" is not placed`, "nomad job status two")
	b.accessible()

	// The page of the volume follows by itself while the job is stopped elsewhere.
	mark := "document.querySelector('h1')"
	b.exec(mark + ".dataset.kept = 'yes'")
	a.Stop("one", false)
	b.until("a claim of the second job", "[...document.querySelectorAll('[aria-label=Claims] tbody tr')].some((r) => r.textContent.includes('two') && r.textContent.includes('ready'))")
	if !eval[bool](b, mark+".dataset.kept === 'yes'") {
		t.Error("the page was made again instead of changed")
	}
	b.see("claim ended")

	// A shell.
	alloc := a.Running("two", 1)
	b.visit("/ui/allocations/" + alloc.ID)
	b.click("Shell")
	b.until("the prompt", "(document.querySelector('.xterm-rows')?.innerText || '').trim()")
	b.keys("echo $((6*7))2\r")
	b.until("the output", "document.querySelector('.xterm-rows').innerText.includes('422')")

	// A token that may only read.
	reader := a.ClientToken("reader", `namespace "default" { policy = "read" }`)
	b.visit("/ui/settings/tokens")
	b.fill("input[name=token]", reader.SecretID)
	b.exec("document.querySelector('form').requestSubmit()")
	b.see("reader")
	b.visit("/ui/jobs/two@default")
	b.see("Newest allocations")
	b.press("document.querySelector('.toast.bad')?.textContent.includes('Permission denied')", "Stop", "Stop")

	// The token ends while the page is open.
	if _, err := a.API.ACLTokens().Delete(reader.AccessorID, nil); err != nil {
		t.Fatal(err)
	}
	b.visit("/ui/jobs")
	b.until("the way to sign in", "['Use another token', 'Sign in again'].some((text) => document.body.innerText.includes(text))")
	b.visit("/ui/settings/tokens")
	b.fill("input[name=token]", kit.ManagementToken)
	b.exec("document.querySelector('form').requestSubmit()")
	b.see("management")

	// The agent goes away and comes back.
	b.visit("/ui/jobs/two@default")
	b.see("Newest allocations")
	a.Kill()
	b.see("Disconnected from the agent")
	a.Launch()
	b.until("the end of the message", "!document.body.innerText.includes('Disconnected from the agent')")
	b.press("document.querySelector('h1 + .badge')?.textContent === 'stopped'", "Stop", "Stop")
	b.clean()
}

// The list stays short and fast with thousands of jobs: the server cuts and filters it.
func TestListOfManyJobs(t *testing.T) {
	const jobs = 300
	a := kit.Start(t)
	for i := range jobs {
		j := kit.ShellJob("job-"+strings.Repeat("0", 3)+string(rune('a'+i%26))+"-"+time.Duration(i).String(), "exec sleep 1")
		never := "never"
		j.Constraints = []*api.Constraint{{LTarget: "${attr.kernel.name}", RTarget: never, Operand: "="}}
		a.Register(j)
	}
	b := newBrowser(t, a.API.Address())
	b.visit("/ui/jobs")
	if token := kit.Token(); token != "" {
		b.exec("sessionStorage.setItem('token', " + quoted(token) + ")")
		b.visit("/ui/jobs")
	}
	b.until("a page of the list", "document.querySelectorAll('main tbody tr').length === 50")
	b.click("Next")
	b.see("Page 2")
	b.fill("input[aria-label='Name contains']", "-299ns")
	b.until("the filtered list", "document.querySelectorAll('main tbody tr').length === 1")
	b.clean()
}
