package job

import (
	"cmp"
	"os"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/session"
)

// variablePrefix begins the environment variables that set variables of job files.
const variablePrefix = "NOMAD_VAR_"

// fileFlags are the flags of verbs that read a job file.
func fileFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "var", Usage: "set a variable: `name=value`; may be repeated"},
		&cli.StringSliceFlag{Name: "var-file", Usage: "`file` with variable values; may be repeated"},
		&cli.BoolFlag{Name: "hcl2-strict", Value: true, Usage: "refuse variables that the job does not declare"},
		&cli.StringFlag{Name: "vault-namespace", Usage: "`namespace` of Vault for the job"},
		&cli.StringFlag{Name: "consul-namespace", Usage: "`namespace` of Consul for the job"},
	}
}

// source is a job and the text that it came from. output is the job without defaults, as JSON is made of it.
type source struct {
	job        *api.Job
	submission *api.JobSubmission
	output     func() any
}

// environment lists the variables of job files that the environment sets.
func environment() []string {
	var vars []string
	for _, kv := range os.Environ() {
		if strings.HasPrefix(kv, variablePrefix) {
			vars = append(vars, kv)
		}
	}
	return vars
}

// readJob reads the job of an argument, HCL or with -json JSON. A namespace or region that was
// asked for wins over that of the file.
func readJob(s *session.Session, path string) (*source, error) {
	name, text, err := s.Source(path)
	if err != nil {
		return nil, session.Failed("getting job struct", err)
	}
	var src *source
	if s.Bool("json") {
		src, err = fromJSON(text)
	} else {
		src, err = fromHCL(s, name, text)
	}
	if err != nil {
		return nil, session.Failed("getting job struct", err)
	}
	if s.IsSet("namespace") || src.job.Namespace == "" || src.job.Namespace == api.DefaultNamespace {
		src.job.Namespace = s.Namespace()
	}
	src.job.VaultNamespace = cmp.Or(s.String("vault-namespace"), src.job.VaultNamespace)
	src.job.ConsulNamespace = cmp.Or(s.String("consul-namespace"), src.job.ConsulNamespace)
	switch {
	case s.IsSet("region"):
		src.job.Region = s.String("region")
	case src.job.Region != "" && src.job.Region != api.GlobalRegion:
		s.Client = s.InRegion(src.job.Region)
	}
	return src, nil
}
