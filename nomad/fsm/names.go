package fsm

import "fmt"

// names are the metrics with the durations of commands: the names in existing dashboards where there are any.
var names = map[Kind]string{ //nolint:gosec // names of metrics
	KindNodeRegister: "nomad.fsm.register_node", KindNodeStatus: "nomad.fsm.node_status_update",
	KindNodeEligibility: "nomad.fsm.node_eligibility_update", KindNodeDrain: "nomad.fsm.node_drain_update",
	KindNodePurge: "nomad.fsm.deregister_node", KindNodeEvaluate: "nomad.fsm.evaluate_node", KindNodeDrainStep: "nomad.fsm.batch_node_drain_update",
	KindJobRegister: "nomad.fsm.register_job", KindJobDeregister: "nomad.fsm.deregister_job", KindJobEvaluate: "nomad.fsm.evaluate_job",
	KindJobStatus: "nomad.fsm.job_status", KindJobScale: "nomad.fsm.upsert_scaling_event", KindJobStability: "nomad.fsm.apply_job_stability",
	KindJobTag: "nomad.fsm.apply_job_version_tag", KindJobRevert: "nomad.fsm.revert_job", KindJobDispatch: "nomad.fsm.dispatch_job",
	KindJobLaunch:  "nomad.fsm.launch_job",
	KindEvalUpdate: "nomad.fsm.update_eval", KindEvalReap: "nomad.fsm.delete_eval", KindPlanApply: "nomad.fsm.apply_plan_results",
	KindAllocUpdate: "nomad.fsm.alloc_client_update", KindAllocTransition: "nomad.fsm.alloc_update_desired_transition",
	KindGCReap: "nomad.fsm.gc_reap", KindSummariesRecount: "nomad.fsm.reconcile_summaries",
	KindVolumeRegister: "nomad.fsm.apply_csi_volume_register", KindVolumeIntent: "nomad.fsm.apply_csi_volume_intent",
	KindVolumeProvisioned: "nomad.fsm.apply_csi_volume_provisioned", KindVolumeDeregister: "nomad.fsm.apply_csi_volume_deregister",
	KindVolumeDeleteBegin: "nomad.fsm.apply_csi_volume_delete_begin", KindVolumeDeleteEnd: "nomad.fsm.apply_csi_volume_delete_end",
	KindVolumeExpandBegin: "nomad.fsm.apply_csi_volume_expand_begin", KindVolumeExpandEnd: "nomad.fsm.apply_csi_volume_expand_end",
	KindVolumeUnpublish: "nomad.fsm.apply_csi_volume_claim", KindVolumeDetach: "nomad.fsm.apply_csi_volume_detach",
	KindAttachmentResult: "nomad.fsm.apply_csi_attachment", KindVolumeNodeExpanded: "nomad.fsm.apply_csi_volume_node_expanded",
	KindVolumeClaimsReconcile: "nomad.fsm.apply_csi_volume_batch_claim",
	KindNamespaceUpsert:       "nomad.fsm.apply_namespace_upsert", KindNamespaceDelete: "nomad.fsm.apply_namespace_delete",
	KindNodePoolUpsert: "nomad.fsm.apply_node_pool_upsert", KindNodePoolDelete: "nomad.fsm.apply_node_pool_delete",
	KindSchedulerConfig: "nomad.fsm.apply_scheduler_config", KindAutopilotConfig: "nomad.fsm.autopilot", KindClusterID: "nomad.fsm.cluster_meta",
	KindRootKeyAdd: "nomad.fsm.apply_wrapped_root_key_upsert", KindRootKeyDelete: "nomad.fsm.apply_wrapped_root_key_delete",
	KindRootKeyActivate:  "nomad.fsm.apply_root_key_meta_upsert",
	KindDeploymentStatus: "nomad.fsm.apply_deployment_status_update", KindDeploymentPromote: "nomad.fsm.apply_deployment_promotion",
	KindDeploymentPause: "nomad.fsm.apply_deployment_pause", KindDeploymentHealth: "nomad.fsm.apply_deployment_alloc_health",
	KindDeploymentStep: "nomad.fsm.apply_deployment_step",
	KindACLBootstrap:   "nomad.fsm.apply_acl_token_bootstrap", KindACLTokenUpsert: "nomad.fsm.apply_acl_token_upsert",
	KindACLTokenDelete: "nomad.fsm.apply_acl_token_delete", KindOneTimeTokenAdd: "nomad.fsm.apply_one_time_token_upsert",
	KindOneTimeTokenExchange: "nomad.fsm.apply_one_time_token_delete", KindACLExpire: "nomad.fsm.apply_one_time_token_expire",
	KindACLPolicyUpsert: "nomad.fsm.apply_acl_policy_upsert", KindACLPolicyDelete: "nomad.fsm.apply_acl_policy_delete",
	KindACLRoleUpsert: "nomad.fsm.apply_acl_role_upsert", KindACLRoleDelete: "nomad.fsm.apply_acl_role_delete_by_id",
	KindACLReplicate:     "nomad.fsm.apply_acl_replicate",
	KindAuthMethodUpsert: "nomad.fsm.apply_acl_auth_method_upsert", KindAuthMethodDelete: "nomad.fsm.apply_acl_auth_method_delete",
	KindBindingRuleUpsert: "nomad.fsm.apply_acl_binding_rule_upsert", KindBindingRuleDelete: "nomad.fsm.apply_acl_binding_rule_delete",
	KindLogin:       "nomad.fsm.apply_acl_login",
	KindVariableSet: "nomad.fsm.apply_sv_operation", KindVariableDelete: "nomad.fsm.apply_sv_operation",
	KindServiceDelete: "nomad.fsm.apply_service_registration_delete_id",
	KindHostVolumePut: "nomad.fsm.apply_host_volume_register", KindHostVolumeDelete: "nomad.fsm.apply_host_volume_delete",
	KindHostVolumeClaimDelete: "nomad.fsm.apply_task_group_host_volume_claim_delete",
}

// metricPersist is how long a snapshot takes to write.
const metricPersist = "nomad.fsm.persist"

// MetricName is the name of the metric with the durations of commands of a kind.
func MetricName(k Kind) string {
	if name, ok := names[k]; ok {
		return name
	}
	return fmt.Sprintf("nomad.fsm.kind_%d", k)
}
