package ui

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

func ptr[T any](v T) *T { return &v }

// updated is a job whose allocations are healthy soon after they start, and whose changes begin with canaries.
func updated(id, script string, canaries int) *api.Job {
	j := kit.ShellJob(id, script)
	j.TaskGroups[0].Update = &api.UpdateStrategy{
		MaxParallel: ptr(1), Canary: ptr(canaries), HealthCheck: ptr("task_states"), MinHealthyTime: ptr(50 * time.Millisecond),
		HealthyDeadline: ptr(time.Minute), ProgressDeadline: ptr(2 * time.Minute),
	}
	return j
}

// A user does on the pages of jobs what the command line does: runs instances of templates, scales, promotes and fails
// deployments, goes back to a version, and restarts, signals and stops an allocation.
func TestJobsAreSteeredInABrowser(t *testing.T) {
	a := kit.Start(t)
	b := newBrowser(t, a.API.Address())
	b.signIn(kit.Token())

	// A parameterized job with payload and metadata.
	template := kit.ShellJob("template", `echo "$NOMAD_META_color $(cat "$NOMAD_TASK_DIR/in")"`)
	template.Type = ptr("batch")
	template.ParameterizedJob = &api.ParameterizedJobConfig{Payload: "required", MetaRequired: []string{"color"}, MetaOptional: []string{"size"}}
	template.TaskGroups[0].Tasks[0].DispatchPayload = &api.DispatchPayloadConfig{File: "in"}
	a.Register(template)
	b.visit("/ui/jobs/template@default")
	b.click("Dispatch")
	b.fill("dialog [name='meta color']", "green")
	b.fill("dialog [name=payload]", `{"text": "שלום"}`)
	b.press("location.pathname.startsWith('/ui/jobs/template%2Fdispatch')", "Dispatch")
	b.until("an allocation", "document.querySelector('[aria-label=Allocations] tbody a.id')")
	b.exec("document.querySelector('[aria-label=Allocations] tbody a.id').click()")
	b.click("Logs")
	b.see(`green {"text": "שלום"}`)

	// A periodic job is run now.
	nightly := kit.ShellJob("nightly", "exit 0")
	nightly.Type = ptr("batch")
	nightly.Periodic = &api.PeriodicConfig{Specs: []string{"0 0 1 1 *"}, Enabled: ptr(true)}
	a.Register(nightly)
	b.visit("/ui/jobs/nightly@default")
	b.press("document.querySelector('.toast')?.textContent.includes('An instance was started')", "Run an instance now")
	a.Until(time.Minute, "an instance", func() error {
		if jobs, _, err := a.API.Jobs().PrefixList("nightly/periodic"); err != nil || len(jobs) != 1 {
			return errors.Join(err, errors.New("no instance"))
		}
		return nil
	})

	// A canary is promoted, and the next is failed; then the job goes back to its first version.
	a.Register(updated("web", "sleep 1001", 1))
	a.Running("web", 1)
	b.visit("/ui/jobs/web@default")
	b.see("Deployment completed successfully")
	a.Register(updated("web", "sleep 1002", 1))
	b.press("document.querySelector('.toast')?.textContent.includes('Promoted')", "Promote")
	b.until("the end of the deployment", "[...document.querySelectorAll('[aria-label=Deployments] tbody tr')].some((r) => r.textContent.includes('successful') && r.cells[2].textContent === '1')")
	a.Register(updated("web", "sleep 1003", 1))
	b.press("[...document.querySelectorAll('[aria-label=Deployments] tbody tr')].some((r) => r.textContent.includes('failed') && r.cells[2].textContent === '2')", "Fail", "Fail")
	b.visit("/ui/jobs/web@default/versions")
	b.until("the versions", "document.querySelector('[aria-label=\"Version 0\"] button')")
	b.exec("document.querySelector('[aria-label=\"Version 0\"] button').click()")
	b.press("document.querySelector('[aria-label=\"Version 3\"]')?.textContent.includes('current')", "Revert")

	// Scale, restart, signal, stop.
	a.Register(updated("app", `trap 'echo hup' HUP; while :; do sleep 0.1; done`, 0))
	b.visit("/ui/jobs/app@default")
	b.see("Deployment completed successfully")
	b.click("Scale")
	b.fill("dialog [name=count]", "2")
	b.press("document.querySelectorAll('[aria-label=Allocations] tbody tr').length === 2", "Scale")
	alloc := a.Running("app", 2)
	b.visit("/ui/allocations/" + alloc.ID)
	b.press("document.body.innerText.includes('User requested task to restart')", "Restart", "Restart")
	b.until("a second start", "document.querySelector('[aria-label=Tasks] tbody tr').cells[2].textContent === '1' && document.querySelector('[aria-label=Tasks] tbody tr').cells[1].textContent === 'running'")
	b.press("document.querySelector('[aria-label=Tasks] tbody tr').textContent.includes('signal')", "Signal", "Send")
	b.click("Logs")
	b.see("hup")
	b.visit("/ui/allocations/" + alloc.ID)
	b.press("document.querySelector('h1 + .badge')?.textContent === 'complete'", "Stop", "Stop")
	b.see("Next")

	// The window of a shell changes its size.
	next := a.Running("app", 2)
	b.visit("/ui/exec/" + next.ID + "/main")
	rows := "(document.querySelector('.xterm-rows')?.innerText || '')"
	b.until("the prompt", rows+".trim()")
	b.keys("stty size; echo first\r")
	b.until("the size", `/\d+ \d+\s+first/.test(`+rows+")")
	before := eval[string](b, `/(\d+ \d+)\s+first/.exec(`+rows+")[1]")
	b.exec("document.querySelector('.terminal').style.setProperty('height', '310px')")
	b.exec("document.querySelector('.terminal').style.setProperty('width', '500px')")
	b.keys("while [ \"$(stty size)\" = '" + before + "' ]; do sleep 0.1; done; echo re$((1+1))sized\r")
	b.until("the other size", rows+".includes('re2sized')")

	// A drain to its end.
	nodes, _, err := a.API.Nodes().List(nil)
	if err != nil || len(nodes) != 1 {
		t.Fatal(nodes, err)
	}
	b.visit("/ui/clients/" + nodes[0].ID)
	b.click("Drain")
	b.fill("dialog [name=deadline]", "soon")
	b.press("document.querySelector('.toast.bad')?.textContent.includes('is not a duration')", "Drain")
	b.click("Drain")
	b.fill("dialog [name=deadline]", "2s")
	b.press("document.body.innerText.includes('The node drains, at the latest')", "Drain")
	b.until("the end of the drain", "!document.body.innerText.includes('The node drains,') && document.querySelector('h1 + .badge + .badge')?.textContent === 'ineligible'")
	b.press("!document.querySelector('h1 + .badge + .badge')", "Make eligible")
	b.clean()
}

// A user creates a volume, expands it, makes and deletes a snapshot, detaches it and removes it.
func TestAVolumeIsManagedInABrowser(t *testing.T) {
	a := kit.Start(t)
	a.Plugin("plug")
	b := newBrowser(t, a.API.Address())
	b.signIn(kit.Token())

	b.visit("/ui/storage/volumes/create")
	b.until("the plugin", "document.querySelector('select[name=plugin]')?.value === 'plug'")
	b.fill("input[name=id]", "disk")
	b.fill("input[name=min]", "0.01")
	b.press("location.pathname === '/ui/storage/volumes/csi/disk@default'", "Create")
	b.see("10.2 MiB", "No allocation holds this volume")
	b.click("Expand")
	b.fill("dialog [name=size]", "0.02")
	b.press("document.body.innerText.includes('20.5 MiB')", "Expand")
	b.click("Snapshot")
	b.fill("dialog [name=name]", "before")
	b.press("[...document.querySelectorAll('[aria-label=Snapshots] tbody tr')].some((r) => r.textContent.includes('ready'))", "Create")
	b.exec("document.querySelector('[aria-label=Snapshots] tbody button').click()")
	b.press("document.body.innerText.includes('No snapshots of this volume')", "Delete")

	a.Register(kit.WithVolume(kit.ShellJob("app", "exec sleep 1000"), "disk"))
	a.Running("app", 1)
	b.until("the claim", "document.querySelector('[aria-label=Claims] tbody tr')?.textContent.includes('ready')")
	// The operator's word ends the claim, and the reason is recorded. The job's next allocation takes the volume.
	b.click("By force")
	b.fill("dialog [name=reason]", "the node is shut off")
	b.press("document.querySelector('[aria-label=Releases] tbody tr')?.textContent.includes('the node is shut off') || document.querySelector('.toast.bad')?.textContent.includes('mounted')", "Detach")

	a.Stop("app", true)
	a.Free("disk") // the page may show the moment between two allocations
	b.see("No allocation holds this volume")
	b.click("Remove")
	b.choose("dialog [name=how]", "delete")
	b.fill("dialog [name=name]", "disk")
	b.press("location.pathname === '/ui/storage'", "Continue")
	b.see("There are no volumes")
	b.clean()
}
