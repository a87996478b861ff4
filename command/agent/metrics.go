package agent

import (
	"os"
	"time"

	"github.com/open-nomad/open-nomad/api/wire/certs"
	"github.com/open-nomad/open-nomad/internal/metrics"
	"github.com/open-nomad/open-nomad/internal/tracing"
)

// openMetrics opens the sinks that the configuration names, also for the libraries of the agent.
func (a *agent) openMetrics() (err error) {
	host, _ := os.Hostname()
	conf := a.cfg.Telemetry.Metrics(host, a.cfg.Name)
	conf.Log = a.log.Named("metrics")
	if a.metrics, err = metrics.New(conf); err != nil {
		return err
	}
	a.metrics.Read(a.gauges)
	return a.metrics.Global()
}

// gauges reports the present values of the parts of this agent.
func (a *agent) gauges(emit metrics.Emit) {
	if a.server != nil {
		a.server.Gauges(emit)
	}
	if a.node != nil {
		a.node.Gauges(emit)
	}
	expiry(emit, "rpc", a.tls.rpc)
	expiry(emit, "http", a.tls.http)
}

// expiry reports how long certificates are still valid.
func expiry(emit metrics.Emit, use string, r *certs.Reloadable) {
	if r == nil {
		return
	}
	label := metrics.Label{Name: "use", Value: use}
	cert, authority := r.Expiry()
	emit("agent.tls.cert.expiration_seconds", time.Until(cert).Seconds(), label)
	if !authority.IsZero() {
		emit("agent.tls.ca.expiration_seconds", time.Until(authority).Seconds(), label)
	}
}

// openTraces begins to send traces to the collector that the configuration names.
func (a *agent) openTraces() (closer func(), err error) {
	t := a.cfg.Telemetry.OTLP
	return tracing.Open(tracing.Config{
		Endpoint: t.Endpoint, Headers: t.Headers, Ratio: t.SampleRatio, Agent: a.cfg.Name, Region: a.cfg.Region, Version: a.version, Log: a.log.Named("traces"),
	})
}
