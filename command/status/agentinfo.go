package status

import (
	"context"
	"maps"
	"slices"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/command/session"
)

// AgentInfo is "nomad agent-info".
func AgentInfo(name string) *cli.Command {
	return session.Verb{
		Name: name, Usage: "show the metrics of the contacted agent", Format: true,
		Run: func(ctx context.Context, s *session.Session) error {
			self, err := s.Self(ctx)
			if err != nil {
				return session.Failed("querying agent info", err)
			}
			if s.Formatted() {
				return s.Document(self.Stats)
			}
			for _, section := range slices.Sorted(maps.Keys(self.Stats)) {
				s.Println(section)
				for _, k := range slices.Sorted(maps.Keys(self.Stats[section])) {
					s.Printf("  %s = %s\n", k, self.Stats[section][k])
				}
			}
			return nil
		},
	}.Command()
}
