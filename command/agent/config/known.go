package config

import "strings"

// known lists keys of the compatible configuration that this version accepts and does not use; a
// block stands for all that is in it. It shrinks as features arrive.
var known = map[string]bool{
	"client.alloc_mounts_dir":                      true,
	"client.preferred_address_family":              true,
	"client.network_speed":                         true,
	"client.cpu_disable_dmidecode":                 true,
	"client.disk_free_mb":                          true,
	"client.client_max_port":                       true,
	"client.client_min_port":                       true,
	"client.gc_volumes_on_node_gc":                 true,
	"client.no_host_uuid":                          true,
	"client.template.disable_file_sandbox":         true,
	"client.template.consul_retry":                 true,
	"client.template.vault_default_lease_duration": true,
	"client.template.vault_retry":                  true,
	"client.template.use_client_consul_token":      true,
	"client.nomad_service_discovery":               true,
	"client.artifact.disable_artifact_inspection":  true,
	"client.users":                                 true,
	"client.log_file":                              true,
	"client.fingerprint":                           true,
	"server.job_default_priority":                  true,
	"server.protocol_version":                      true,
	"server.raft_protocol":                         true,
	"server.csi_volume_claim_gc_interval":          true,
	"server.csi_volume_claim_gc_threshold":         true,
	"server.csi_plugin_gc_threshold":               true,
	"server.non_voting_server":                     true,
	"server.redundancy_zone":                       true,
	"server.upgrade_version":                       true,
	"server.plan_apply_pipeline":                   true,
	"server.license_path":                          true,
	"server.deploy_query_rate_limit":               true,
	"server.raft_logstore":                         true,
	"server.raft_boltdb":                           true,
	"server.start_timeout":                         true,
	"server.log_file":                              true,
	"server.non_production":                        true,
	"rpc":                                          true,
	"telemetry.disable_quota_utilization_metrics":  true,
	"enable_syslog":                                true,
	"syslog_facility":                              true,
	"disable_update_check":                         true,
	"disable_anonymous_signature":                  true,
	"ui.consul":                                    true,
	"ui.vault":                                     true,
	"sentinel":                                     true,
	"reporting":                                    true,
	"autopilot":                                    true,
	"consul":                                       true,
	"vault":                                        true,
	"eventlog":                                     true,
}

// unused reports whether the key, or a block around it, is known but not used.
func unused(path string) bool {
	for {
		if known[path] {
			return true
		}
		i := strings.LastIndexByte(path, '.')
		if i < 0 {
			return false
		}
		path = path[:i]
	}
}

// harmful lists keys that may not be ignored: a configuration that sets one to another value relies on its effect.
var harmful = map[string]struct {
	harmless any
	why      string
}{
	"sentinel":                             {nil, "its policies would not be enforced"},
	"server.non_voting_server":             {false, "the server would vote"},
	"server.job_default_priority":          {50, "jobs without a priority would have 50"},
	"server.redundancy_zone":               {"", "the server would vote together with others of its zone"},
	"server.upgrade_version":               {"", "servers of another version would be peers at once"},
	"autopilot.enable_redundancy_zones":    {false, "all servers would vote"},
	"autopilot.enable_custom_upgrades":     {false, "servers of another version would be peers at once"},
	"client.template.disable_file_sandbox": {false, "templates would read and write files of the task and its allocation only"},
	"client.disk_free_mb":                  {0, "another amount of disk would be given to jobs"},
	"client.users.dynamic_user_min":        {80000, "no driver takes users from a range: tasks of exec run as nobody or as their user"},
	"client.users.dynamic_user_max":        {89999, "no driver takes users from a range: tasks of exec run as nobody or as their user"},
}
