package operator

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/session"
	"github.com/open-nomad/open-nomad/command/view"
)

// AutopilotGet is "nomad operator autopilot get-config".
func AutopilotGet(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "show the autopilot configuration", Format: true,
		Run: func(ctx context.Context, s *session.Session) error {
			c, err := s.AutopilotConfig(ctx)
			if err != nil {
				return session.Failed("querying autopilot configuration", err)
			}
			if s.Formatted() {
				return s.Document(c)
			}
			s.Print(view.Pairs(
				[2]string{"CleanupDeadServers", strconv.FormatBool(c.CleanupDeadServers)},
				[2]string{"LastContactThreshold", c.LastContactThreshold.String()},
				[2]string{"MaxTrailingLogs", strconv.FormatUint(c.MaxTrailingLogs, 10)},
				[2]string{"MinQuorum", strconv.FormatUint(uint64(c.MinQuorum), 10)},
				[2]string{"ServerStabilizationTime", c.ServerStabilizationTime.String()},
				[2]string{"EnableRedundancyZones", strconv.FormatBool(c.EnableRedundancyZones)},
				[2]string{"DisableUpgradeMigration", strconv.FormatBool(c.DisableUpgradeMigration)},
				[2]string{"EnableCustomUpgrades", strconv.FormatBool(c.EnableCustomUpgrades)}))
			return nil
		},
	}.Command()
}

// settings are what set-config can change; flags are texts so that what is not said stays.
var settings = []struct {
	flag, usage string
	set         func(c *api.AutopilotConfiguration, text string) error
}{
	{"cleanup-dead-servers", "`bool`: remove dead servers", func(c *api.AutopilotConfiguration, v string) (err error) {
		c.CleanupDeadServers, err = strconv.ParseBool(v)
		return err
	}},
	{"last-contact-threshold", "`duration` without word from the leader that a healthy server may have", func(c *api.AutopilotConfiguration, v string) (err error) {
		c.LastContactThreshold, err = time.ParseDuration(v)
		return err
	}},
	{"max-trailing-logs", "`number` of entries that a healthy server may be behind", func(c *api.AutopilotConfiguration, v string) (err error) {
		c.MaxTrailingLogs, err = strconv.ParseUint(v, 10, 64)
		return err
	}},
	{"min-quorum", "least `number` of servers", func(c *api.AutopilotConfiguration, v string) error {
		n, err := strconv.ParseUint(v, 10, 32)
		c.MinQuorum = uint(n)
		return err
	}},
	{"server-stabilization-time", "`duration` that a new server must be healthy before it votes", func(c *api.AutopilotConfiguration, v string) (err error) {
		c.ServerStabilizationTime, err = time.ParseDuration(v)
		return err
	}},
	{"disable-upgrade-migration", "`bool`", func(c *api.AutopilotConfiguration, v string) (err error) {
		c.DisableUpgradeMigration, err = strconv.ParseBool(v)
		return err
	}},
	{"enable-redundancy-zones", "`bool`", func(c *api.AutopilotConfiguration, v string) (err error) {
		c.EnableRedundancyZones, err = strconv.ParseBool(v)
		return err
	}},
	{"enable-custom-upgrades", "`bool`", func(c *api.AutopilotConfiguration, v string) (err error) {
		c.EnableCustomUpgrades, err = strconv.ParseBool(v)
		return err
	}},
}

// kindOf is the word in backquotes that a usage has: what a value is.
func kindOf(usage string) string {
	_, rest, _ := strings.Cut(usage, "`")
	word, _, _ := strings.Cut(rest, "`")
	if word == "bool" {
		return "truth value: true or false"
	}
	return word
}

// AutopilotSet is "nomad operator autopilot set-config".
func AutopilotSet(name string) *cli.Command {
	v := session.Verb{Name: name, Usage: "change the autopilot configuration", Run: setAutopilot}
	for _, f := range settings {
		v.Flags = append(v.Flags, &cli.StringFlag{Name: f.flag, Usage: f.usage})
	}
	return v.Command()
}

func setAutopilot(ctx context.Context, s *session.Session) error {
	c, err := s.AutopilotConfig(ctx)
	if err != nil {
		return session.Failed("querying autopilot configuration", err)
	}
	said := 0
	for _, f := range settings {
		if !s.IsSet(f.flag) {
			continue
		}
		said++
		text := s.String(f.flag)
		if err := f.set(c, text); err != nil {
			return fault.New(fault.Invalid, "-%s %q is not a %s", f.flag, text, kindOf(f.usage))
		}
	}
	if said == 0 {
		return fault.New(fault.Invalid, "specify at least one setting: see nomad operator autopilot set-config -help")
	}
	updated, err := s.SetAutopilotConfig(ctx, c)
	switch {
	case err != nil:
		return session.Failed("setting autopilot configuration", err)
	case !updated:
		return fault.New(fault.Conflict, "the configuration changed in the meantime: try again")
	}
	s.Println("Configuration updated!")
	return nil
}

// Health is "nomad operator autopilot health".
func Health(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "show the health of the servers", Format: true,
		Run: func(ctx context.Context, s *session.Session) error {
			h, err := s.ServerHealth(ctx)
			if err != nil {
				return session.Failed("querying server health", err)
			}
			if s.Formatted() {
				return s.Document(h)
			}
			s.Print(view.Pairs(
				[2]string{"Healthy", strconv.FormatBool(h.Healthy)},
				[2]string{"FailureTolerance", strconv.Itoa(h.FailureTolerance)},
				[2]string{"Leader", h.Leader},
				[2]string{"Voters", strings.Join(h.Voters, ", ")}))
			table := [][]string{{"ID", "Name", "Address", "SerfStatus", "Version", "Leader", "Voter", "Healthy", "LastContact", "LastTerm", "LastIndex", "StableSince"}}
			for _, x := range h.Servers {
				table = append(table, []string{
					x.ID, x.Name, x.Address, x.SerfStatus, x.Version, strconv.FormatBool(x.Leader), strconv.FormatBool(x.Voter),
					strconv.FormatBool(x.Healthy), x.LastContact.String(), strconv.FormatUint(x.LastTerm, 10),
					strconv.FormatUint(x.LastIndex, 10), x.StableSince.Format("2006-01-02T15:04:05Z07:00"),
				})
			}
			s.Section("Servers", table...)
			return nil
		},
	}.Command()
}
