package ui

import (
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/cmd/nomad/e2e/kit"
)

// A user creates, changes and deletes a variable. A change of another user in the meantime is shown and not overwritten.
func TestVariablesAreChangedInABrowser(t *testing.T) {
	a := kit.Start(t)
	b := newBrowser(t, a.API.Address())
	b.signIn(kit.Token())
	b.visit("/ui/variables/new")
	b.fill("input[name=path]", "app/config")
	b.fill(".items input", "color")
	b.fill(".items textarea", "green")
	b.press("location.pathname === '/ui/variables/var/app%2Fconfig@default'", "Save")
	b.see("color", "hidden")
	b.accessible()
	b.click("Edit")
	b.until("the item", "document.querySelector('.items textarea')?.value === 'green'")
	b.fill(".items textarea", "red")
	stored := &api.Variable{Path: "app/config", Items: api.VariableItems{"color": "blue"}}
	if _, _, err := a.API.Variables().Update(stored, nil); err != nil {
		t.Fatal(err)
	}
	b.click("Save")
	b.see("nothing was saved", "Items that differ: color")
	if v, _, err := a.API.Variables().Read("app/config", nil); err != nil || v.Items["color"] != "blue" {
		t.Errorf("a conflict stored %v, %v", v, err)
	}
	b.click("Keep mine and overwrite on save")
	b.press("location.pathname.startsWith('/ui/variables/var/')", "Save")
	if v, _, err := a.API.Variables().Read("app/config", nil); err != nil || v.Items["color"] != "red" {
		t.Errorf("after the second attempt: %v, %v", v, err)
	}
	b.click("Delete")
	b.press("location.pathname === '/ui/variables'", "Delete")
	b.see("There are no variables")
	b.clean()
}

// A user creates a policy, a role and a token that expires; the secret is shown once. All are changed and deleted.
func TestAccessIsManagedInABrowser(t *testing.T) {
	a := kit.PrepareGuarded(t)
	a.Launch()
	b := newBrowser(t, a.API.Address())
	b.signIn(kit.ManagementToken)
	b.visit("/ui/access-control/new/policies")
	b.fill("input[name=name]", "readers")
	b.fill("textarea[name=rules]", "namespace \"default\" {")
	b.press("document.querySelector('.toast.bad')", "Save")
	b.fill("textarea[name=rules]", "namespace \"default\" {\n  policy = \"read\"\n}\n")
	b.press("location.pathname === '/ui/access-control/policies/readers'", "Save")
	b.click("Edit")
	b.until("the policy", "document.querySelector('input[name=name]')?.value === 'readers'")
	b.fill("input[name=description]", "may look")
	b.press("document.body.innerText.includes('may look')", "Save")

	b.visit("/ui/access-control/new/roles")
	b.fill("input[name=name]", "staff")
	b.exec("document.querySelector('input[value=readers]').click()")
	b.press("location.pathname === '/ui/access-control/roles'", "Save")
	b.see("staff", "readers")

	b.visit("/ui/access-control/new/tokens")
	b.fill("input[name=name]", "of ann")
	b.until("the role", "[...document.querySelectorAll('fieldset')].at(-1)?.textContent.includes('staff')")
	b.exec("[...document.querySelectorAll('fieldset')].at(-1).querySelector('input').click()")
	b.fill("input[name=ttl]", "8h")
	b.accessible()
	b.press("document.body.innerText.includes('Copy the secret now')", "Save")
	secret := eval[string](b, "document.querySelector('.command code').textContent")
	self, _, err := a.As(secret).ACLTokens().Self(nil)
	if err != nil || len(self.Roles) != 1 || self.ExpirationTime == nil {
		t.Fatalf("the new token: %+v, %v", self, err)
	}
	b.click("Done")
	b.see("of ann", "role staff", "in 7 h")
	if eval[bool](b, "document.body.innerText.includes("+quoted(secret)+")") {
		t.Error("the secret is on the list of tokens")
	}
	b.accessible()

	// The token is deleted while a page of its user is open: sign-in is asked for, and no more data.
	user := newBrowser(t, a.API.Address())
	user.signIn(secret)
	user.visit("/ui/jobs")
	user.see("There are no jobs")
	b.exec("document.querySelector('button[aria-label=\"Delete of ann\"]').click()")
	b.press("!document.querySelector('main').innerText.includes('of ann')", "Delete")
	user.see("Your token has expired or was deleted", "Sign in again")
	user.exec("performance.clearResourceTimings()")
	b.visit("/ui/access-control/sign-in")
	b.see("There are no auth methods")
	if n := eval[int](user, "performance.getEntriesByType('resource').filter((e) => e.name.includes('/v1/')).length"); n > 2 {
		t.Errorf("a page without a token made %d requests", n)
	}
	b.clean()
}
