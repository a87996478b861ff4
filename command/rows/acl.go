package rows

import (
	"fmt"
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/view"
)

// ACLToken is one ACL token with its secret.
func ACLToken(t *api.ACLToken) string {
	expires := "<none>"
	if e := t.ExpirationTime; e != nil && !e.IsZero() {
		expires = e.UTC().String()
		if t.Expired(time.Now()) {
			expires += " (expired)"
		}
	}
	pairs := [][2]string{
		{"Accessor ID", t.AccessorID},
		{"Secret ID", t.SecretID},
		{"Name", t.Name},
		{"Type", t.Type},
		{"Global", strconv.FormatBool(t.Global)},
		{"Create Time", t.CreateTime.UTC().String()},
		{"Expiry Time", expires},
		{"Create Index", strconv.FormatUint(t.CreateIndex, 10)},
		{"Modify Index", strconv.FormatUint(t.ModifyIndex, 10)},
	}
	if t.Type == api.ACLManagementToken {
		return view.Pairs(append(pairs, [2]string{"Policies", "n/a"}, [2]string{"Roles", "n/a"})...)
	}
	head := view.Pairs(append(pairs, [2]string{"Policies", fmt.Sprint(t.Policies)})...) + "\nRoles\n"
	if len(t.Roles) == 0 {
		return head + "<none>\n"
	}
	table := [][]string{{"ID", "Name"}}
	for _, r := range t.Roles {
		table = append(table, []string{r.ID, r.Name})
	}
	return head + view.Table(table...)
}
