package api

import "time"

// ConsulConnect is the service mesh part of a service.
type ConsulConnect struct {
	Native         bool                  `hcl:"native,optional" msg:",omitempty"`
	Gateway        *ConsulGateway        `hcl:"gateway,block" msg:",omitempty"`
	SidecarService *ConsulSidecarService `hcl:"sidecar_service,block" msg:",omitempty"`
	SidecarTask    *SidecarTask          `hcl:"sidecar_task,block" msg:",omitempty"`
}

// ConsulSidecarService is the sidecar that is registered with a service.
type ConsulSidecarService struct {
	Tags                   []string          `hcl:"tags,optional" msg:",omitempty"`
	Port                   string            `hcl:"port,optional" msg:",omitempty"`
	Proxy                  *ConsulProxy      `hcl:"proxy,block" msg:",omitempty"`
	DisableDefaultTCPCheck bool              `hcl:"disable_default_tcp_check,optional" msg:",omitempty"`
	Meta                   map[string]string `hcl:"meta,block" msg:",omitempty"`
}

// SidecarTask overrides the sidecar's task.
type SidecarTask struct {
	Name          string              `hcl:"name,optional" msg:",omitempty"`
	Driver        string              `hcl:"driver,optional" msg:",omitempty"`
	User          string              `hcl:"user,optional" msg:",omitempty"`
	Config        map[string]any      `hcl:"config,block" msg:",omitempty"`
	Env           map[string]string   `hcl:"env,block" msg:",omitempty"`
	Resources     *Resources          `hcl:"resources,block" msg:",omitempty"`
	Meta          map[string]string   `hcl:"meta,block" msg:",omitempty"`
	KillTimeout   time.Duration       `hcl:"kill_timeout,optional" msg:",omitempty"`
	LogConfig     *LogConfig          `hcl:"logs,block" msg:",omitempty"`
	ShutdownDelay time.Duration       `hcl:"shutdown_delay,optional" msg:",omitempty"`
	KillSignal    string              `hcl:"kill_signal,optional" msg:",omitempty"`
	VolumeMounts  []*VolumeMount      `hcl:"volume_mount,block" msg:",omitempty"`
	Identities    []*WorkloadIdentity `hcl:"identity,block" msg:",omitempty"`
}

// ConsulProxy is the sidecar's proxy configuration.
type ConsulProxy struct {
	LocalServiceAddress string                  `hcl:"local_service_address,optional" msg:",omitempty"`
	LocalServicePort    int                     `hcl:"local_service_port,optional" msg:",omitempty"`
	Expose              *ConsulExposeConfig     `hcl:"expose,block" msg:",omitempty"`
	ExposeConfig        *ConsulExposeConfig     `msg:",omitempty"`
	Upstreams           []*ConsulUpstream       `hcl:"upstreams,block" msg:",omitempty"`
	TransparentProxy    *ConsulTransparentProxy `hcl:"transparent_proxy,block" msg:",omitempty"`
	Config              map[string]any          `hcl:"config,block" msg:",omitempty"`
}

// ConsulUpstream is a service that a sidecar reaches.
type ConsulUpstream struct {
	DestinationName      string             `hcl:"destination_name,optional" msg:",omitempty"`
	DestinationNamespace string             `hcl:"destination_namespace,optional" msg:",omitempty"`
	DestinationPeer      string             `hcl:"destination_peer,optional" msg:",omitempty"`
	DestinationPartition string             `hcl:"destination_partition,optional" msg:",omitempty"`
	DestinationType      string             `hcl:"destination_type,optional" msg:",omitempty"`
	LocalBindPort        int                `hcl:"local_bind_port,optional" msg:",omitempty"`
	Datacenter           string             `hcl:"datacenter,optional" msg:",omitempty"`
	LocalBindAddress     string             `hcl:"local_bind_address,optional" msg:",omitempty"`
	LocalBindSocketPath  string             `hcl:"local_bind_socket_path,optional" msg:",omitempty"`
	LocalBindSocketMode  string             `hcl:"local_bind_socket_mode,optional" msg:",omitempty"`
	MeshGateway          *ConsulMeshGateway `hcl:"mesh_gateway,block" msg:",omitempty"`
	Config               map[string]any     `hcl:"config,block" msg:",omitempty"`
}

// ConsulMeshGateway is how upstream traffic passes mesh gateways.
type ConsulMeshGateway struct {
	Mode string `hcl:"mode,optional" msg:",omitempty"`
}

// ConsulExposeConfig lists HTTP paths that bypass the mesh.
type ConsulExposeConfig struct {
	Paths []*ConsulExposePath `hcl:"path,block" msg:",omitempty"`
	Path  []*ConsulExposePath `msg:",omitempty"`
}

// ConsulExposePath is one exposed HTTP path.
type ConsulExposePath struct {
	Path          string `hcl:"path,optional" msg:",omitempty"`
	Protocol      string `hcl:"protocol,optional" msg:",omitempty"`
	LocalPathPort int    `hcl:"local_path_port,optional" msg:",omitempty"`
	ListenerPort  string `hcl:"listener_port,optional" msg:",omitempty"`
}

// ConsulTransparentProxy captures a task's traffic into the mesh.
type ConsulTransparentProxy struct {
	UID                  string   `hcl:"uid,optional" msg:",omitempty"`
	OutboundPort         uint16   `hcl:"outbound_port,optional" msg:",omitempty"`
	ExcludeInboundPorts  []string `hcl:"exclude_inbound_ports,optional" msg:",omitempty"`
	ExcludeOutboundPorts []uint16 `hcl:"exclude_outbound_ports,optional" msg:",omitempty"`
	ExcludeOutboundCIDRs []string `hcl:"exclude_outbound_cidrs,optional" msg:",omitempty"`
	ExcludeUIDs          []string `hcl:"exclude_uids,optional" msg:",omitempty"`
	NoDNS                bool     `hcl:"no_dns,optional" msg:",omitempty"`
}

// ConsulGateway is a mesh gateway.
type ConsulGateway struct {
	Proxy       *ConsulGatewayProxy           `hcl:"proxy,block" msg:",omitempty"`
	Ingress     *ConsulIngressConfigEntry     `hcl:"ingress,block" msg:",omitempty"`
	Terminating *ConsulTerminatingConfigEntry `hcl:"terminating,block" msg:",omitempty"`
	Mesh        *ConsulMeshConfigEntry        `hcl:"mesh,block" msg:",omitempty"`
}

// ConsulGatewayProxy is the proxy configuration of a gateway.
type ConsulGatewayProxy struct {
	ConnectTimeout                  time.Duration                        `hcl:"connect_timeout,optional" msg:",omitempty"`
	EnvoyGatewayBindTaggedAddresses bool                                 `hcl:"envoy_gateway_bind_tagged_addresses,optional" msg:",omitempty"`
	EnvoyGatewayBindAddresses       map[string]*ConsulGatewayBindAddress `hcl:"envoy_gateway_bind_addresses,block" msg:",omitempty"`
	EnvoyGatewayNoDefaultBind       bool                                 `hcl:"envoy_gateway_no_default_bind,optional" msg:",omitempty"`
	EnvoyDNSDiscoveryType           string                               `hcl:"envoy_dns_discovery_type,optional" msg:",omitempty"`
	Config                          map[string]any                       `hcl:"config,block" msg:",omitempty"`
}

// ConsulGatewayBindAddress is one listener address of a gateway.
type ConsulGatewayBindAddress struct {
	Name    string `hcl:",label" msg:",omitempty"`
	Address string `hcl:"address,optional" msg:",omitempty"`
	Port    int    `hcl:"port,optional" msg:",omitempty"`
}

// ConsulGatewayTLSConfig is the TLS configuration of a gateway.
type ConsulGatewayTLSConfig struct {
	Enabled       bool                       `hcl:"enabled,optional" msg:",omitempty"`
	TLSMinVersion string                     `hcl:"tls_min_version,optional" msg:",omitempty"`
	TLSMaxVersion string                     `hcl:"tls_max_version,optional" msg:",omitempty"`
	CipherSuites  []string                   `hcl:"cipher_suites,optional" msg:",omitempty"`
	SDS           *ConsulGatewayTLSSDSConfig `hcl:"sds,block" msg:",omitempty"`
}

// ConsulGatewayTLSSDSConfig names certificates served by a discovery service.
type ConsulGatewayTLSSDSConfig struct {
	ClusterName  string `hcl:"cluster_name,optional" msg:",omitempty"`
	CertResource string `hcl:"cert_resource,optional" msg:",omitempty"`
}

// ConsulIngressConfigEntry is the configuration of an ingress gateway.
type ConsulIngressConfigEntry struct {
	TLS       *ConsulGatewayTLSConfig  `hcl:"tls,block" msg:",omitempty"`
	Listeners []*ConsulIngressListener `hcl:"listener,block" msg:",omitempty"`
}

// ConsulIngressListener is one port of an ingress gateway.
type ConsulIngressListener struct {
	Port     int                     `hcl:"port,optional" msg:",omitempty"`
	Protocol string                  `hcl:"protocol,optional" msg:",omitempty"`
	Services []*ConsulIngressService `hcl:"service,block" msg:",omitempty"`
}

// ConsulIngressService is one service behind an ingress listener.
type ConsulIngressService struct {
	Name                  string                     `hcl:"name,optional" msg:",omitempty"`
	Hosts                 []string                   `hcl:"hosts,optional" msg:",omitempty"`
	TLS                   *ConsulGatewayTLSConfig    `hcl:"tls,block" msg:",omitempty"`
	RequestHeaders        *ConsulHTTPHeaderModifiers `hcl:"request_headers,block" msg:",omitempty"`
	ResponseHeaders       *ConsulHTTPHeaderModifiers `hcl:"response_headers,block" msg:",omitempty"`
	MaxConnections        uint32                     `hcl:"max_connections,optional" msg:",omitempty"`
	MaxPendingRequests    uint32                     `hcl:"max_pending_requests,optional" msg:",omitempty"`
	MaxConcurrentRequests uint32                     `hcl:"max_concurrent_requests,optional" msg:",omitempty"`
}

// ConsulHTTPHeaderModifiers changes HTTP headers at a gateway.
type ConsulHTTPHeaderModifiers struct {
	Add    map[string]string `hcl:"add,block" msg:",omitempty"`
	Set    map[string]string `hcl:"set,block" msg:",omitempty"`
	Remove []string          `hcl:"remove,optional" msg:",omitempty"`
}

// ConsulTerminatingConfigEntry is the configuration of a terminating gateway.
type ConsulTerminatingConfigEntry struct {
	Services []*ConsulLinkedService `hcl:"service,block" msg:",omitempty"`
}

// ConsulLinkedService is one service behind a terminating gateway.
type ConsulLinkedService struct {
	Name     string `hcl:"name,optional" msg:",omitempty"`
	CAFile   string `hcl:"ca_file,optional" msg:",omitempty"`
	CertFile string `hcl:"cert_file,optional" msg:",omitempty"`
	KeyFile  string `hcl:"key_file,optional" msg:",omitempty"`
	SNI      string `hcl:"sni,optional" msg:",omitempty"`
}

// ConsulMeshConfigEntry is the (empty) configuration of a mesh gateway.
type ConsulMeshConfigEntry struct{}
