package agent

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/command/agent/config"
	"github.com/open-nomad/open-nomad/command/agent/logfile"
)

// newLogger logs to standard error and, when a file is named, there too.
func newLogger(cfg *config.Config) (hclog.Logger, io.Closer, error) {
	level := hclog.LevelFromString(cfg.LogLevel)
	if level == hclog.NoLevel {
		return nil, nil, fault.New(fault.Invalid, "log_level %q is not one of TRACE, DEBUG, INFO, WARN, ERROR", cfg.LogLevel)
	}
	var out io.Writer = os.Stderr
	var closer io.Closer = io.NopCloser(nil)
	if cfg.LogFile != "" {
		file, err := logfile.Open(logfile.Config{
			Path: cfg.LogFile, BytesMax: int64(cfg.LogRotateBytes), AgeMax: cfg.LogRotateDuration, ArchivesMax: cfg.LogRotateMaxFiles,
		})
		if err != nil {
			return nil, nil, fault.Wrap(fault.Invalid, err)
		}
		out, closer = io.MultiWriter(os.Stderr, file), file
	}
	return hclog.NewInterceptLogger(&hclog.LoggerOptions{
		Name: "nomad", Level: level, Output: out, JSONFormat: cfg.LogJSON,
		IncludeLocation: cfg.LogIncludeLocation, TimeFormat: "2006-01-02T15:04:05.000Z07:00",
	}), closer, nil
}

// banner returns a summary of the agent for the start.
func banner(cfg *config.Config, version, httpAddr, rpcAddr, nodeID string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "==> open-nomad agent started\n\n")
	for _, row := range [][2]string{
		{"Version", version},
		{"Region", fmt.Sprintf("%s (DC: %s)", cfg.Region, cfg.Datacenter)},
		{"Server", fmt.Sprint(cfg.Server.Enabled)},
		{"Client", fmt.Sprint(cfg.Client.Enabled)},
		{"HTTP", map[bool]string{false: "http://", true: "https://"}[cfg.TLS.HTTP] + httpAddr},
		{"RPC", rpcAddr},
		{"TLS", tlsSummary(cfg.TLS)},
		{"Node", nodeID},
		{"Config", strings.Join(cfg.Files, ", ")},
	} {
		if row[1] != "" {
			fmt.Fprintf(&b, "%12s: %s\n", row[0], row[1])
		}
	}
	return b.String()
}
