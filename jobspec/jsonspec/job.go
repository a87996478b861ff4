package jsonspec

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// handDown gives the groups of a job the values that only files and programs set for all of them: a job itself has no
// such fields.
func (d *decoder) handDown(j *api.Job, i int) error {
	var all struct {
		Reschedule *api.ReschedulePolicy
		Migrate    *api.MigrateStrategy
	}
	v := reflect.ValueOf(&all).Elem()
	for key := range d.members(i) {
		for f := range v.NumField() {
			if name := v.Type().Field(f).Name; strings.EqualFold(d.str(key), name) {
				if err := d.value(v.Field(f), key+1, strings.ToLower(name)); err != nil {
					return fmt.Errorf(".%s%w", name, err)
				}
			}
		}
	}
	for _, g := range j.TaskGroups {
		if g.ReschedulePolicy == nil && all.Reschedule != nil {
			own := *all.Reschedule
			g.ReschedulePolicy = &own
		}
		if g.Migrate == nil && all.Migrate != nil {
			own := *all.Migrate
			g.Migrate = &own
		}
	}
	return nil
}
