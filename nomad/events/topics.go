package events

import (
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/fault"
	"github.com/open-nomad/open-nomad/nomad/acl/policy"
	"github.com/open-nomad/open-nomad/nomad/fsm"
)

// topicsMax bounds the topics of a subscription.
const topicsMax = 1000

// types are the types of events on jobs, evaluations, allocations, deployments, nodes and plugins, by the command that
// caused them. A command that is not listed causes none; events on other topics have types of their own.
var types = map[fsm.Kind]string{
	fsm.KindNodeRegister: "NodeRegistration", fsm.KindNodeStatus: "NodeStreamEvent", fsm.KindNodeEligibility: "NodeEligibility",
	fsm.KindNodeDrain: "NodeDrain", fsm.KindNodeDrainStep: "NodeDrain", fsm.KindNodePurge: "NodeDeregistration",
	fsm.KindNodeEvaluate: "EvaluationUpdated",

	fsm.KindJobRegister: "JobRegistered", fsm.KindJobRevert: "JobRegistered", fsm.KindJobScale: "JobRegistered",
	fsm.KindJobDispatch: "JobRegistered", fsm.KindJobLaunch: "JobRegistered", fsm.KindJobDeregister: "JobDeregistered",
	fsm.KindJobEvaluate: "EvaluationUpdated", fsm.KindJobStatus: "EvaluationUpdated", fsm.KindGCReap: batchDeregistered,

	fsm.KindEvalUpdate: "EvaluationUpdated", fsm.KindPlanApply: "PlanResult", fsm.KindAllocUpdate: "AllocationUpdated",
	fsm.KindAllocTransition: "AllocationUpdateDesiredStatus",

	fsm.KindDeploymentStatus: "DeploymentStatusUpdate", fsm.KindDeploymentPause: "DeploymentStatusUpdate",
	fsm.KindDeploymentStep: "DeploymentStatusUpdate", fsm.KindDeploymentPromote: "DeploymentPromotion",
	fsm.KindDeploymentHealth: "DeploymentAllocHealth",
}

// batchDeregistered is the type of the garbage collection, which deletes jobs and causes no events on nodes.
const batchDeregistered = "JobBatchDeregistered"

// rights are what a token needs to read a topic. Topics without a right need a management token.
var rights = map[string]api.Right{
	api.TopicJob: readJob, api.TopicEvaluation: readJob, api.TopicAllocation: readJob, api.TopicDeployment: readJob,
	api.TopicService: readJob, api.TopicCSIPlugin: readJob,
	api.TopicCSIVolume: readVolume, api.TopicVolumeClaim: readVolume, api.TopicVolumeAttachment: readVolume,
	api.TopicHostVolume: {On: api.OnNamespace, Any: []string{"host-volume-read"}},
	api.TopicNode:       {On: api.OnNode, Any: []string{"read"}},
	api.TopicOperator:   {On: api.OnOperator, Any: []string{"read"}},
	api.TopicVariable:   {},
	api.TopicAll:        {}, api.TopicNodePool: {}, api.TopicACLToken: {}, api.TopicACLPolicy: {}, api.TopicACLRole: {},
	api.TopicACLAuthMethod: {}, api.TopicACLBindingRule: {},
}

var (
	readJob    = api.Right{On: api.OnNamespace, Any: []string{"read-job"}}
	readVolume = api.Right{On: api.OnNamespace, Any: []string{"csi-read-volume"}}
)

// filter decides which events a subscriber reads.
type filter struct {
	// topics are the keys of each topic; nil is all keys.
	topics map[string]map[string]bool
	// text is the topics as the request has them.
	text string
	// namespace is "*" for all.
	namespace string
	rights    *policy.Rights
}

// parse reads the topics of a request.
func parse(topics []string) (map[string]map[string]bool, error) {
	if len(topics) > topicsMax {
		return nil, fault.New(fault.Invalid, "%d topics are over the limit of %d", len(topics), topicsMax)
	}
	of := map[string]map[string]bool{}
	for _, text := range topics {
		topic, key, keyed := strings.Cut(text, ":")
		if strings.Contains(key, ":") || keyed && key == "" {
			return nil, fault.New(fault.Invalid, "Invalid key value pair %q: want Topic or Topic:key", text)
		}
		if _, known := rights[topic]; !known {
			return nil, fault.New(fault.Invalid, "unknown topic %q: want one of %s", topic, strings.Join(slices.Sorted(maps.Keys(rights)), ", "))
		}
		keys, listed := of[topic]
		switch {
		case !keyed || key == "*" || listed && keys == nil:
			of[topic] = nil
		case !listed:
			of[topic] = map[string]bool{key: true}
		default:
			keys[key] = true
		}
	}
	if len(of) == 0 {
		of[api.TopicAll] = nil
	}
	return of, nil
}

// permitted reports whether the rights permit to subscribe to all topics of the filter. For the namespace "*" a right must
// hold in one namespace.
func (f *filter) permitted() bool {
	for topic := range f.topics {
		right := rights[topic]
		ok := f.rights.IsManagement()
		switch {
		case ok:
		case topic == api.TopicVariable:
			ok = f.namespace == api.AllNamespaces || f.rights.Sees(f.namespace) // each event is compared
		case right.On == api.OnNamespace && f.namespace == api.AllNamespaces:
			ok = f.rights.AllowsSomewhere(right)
		case right.On == api.OnNamespace:
			ok = f.rights.Allows(right, f.namespace)
		case right.On != "":
			ok = f.rights.Allows(right, "")
		}
		if !ok {
			return false
		}
	}
	return true
}

// wants reports whether the subscriber reads an event.
func (f *filter) wants(e *event) bool {
	return (f.named(e.Topic, e) || f.named(api.TopicAll, e)) &&
		(f.namespace == api.AllNamespaces || e.Namespace == "" || e.Namespace == f.namespace) && f.sees(e)
}

func (f *filter) named(topic string, e *event) bool {
	keys, ok := f.topics[topic]
	return ok && (keys == nil || keys[e.Key] || slices.ContainsFunc(e.FilterKeys, func(k string) bool { return keys[k] }))
}

// sees compares the rights with the object of an event. Plugins belong to no namespace: a right in one is enough.
func (f *filter) sees(e *event) bool {
	right := rights[e.Topic]
	switch {
	case f.rights.IsManagement():
		return true
	case e.Topic == api.TopicVariable:
		return f.rights.Variables(e.Namespace, e.Key, "list") || f.rights.Variables(e.Namespace, e.Key, "read")
	case e.Topic == api.TopicCSIPlugin:
		return f.rights.AllowsSomewhere(right)
	case right.On == api.OnNamespace:
		return e.Namespace != "" && f.rights.Allows(right, e.Namespace)
	}
	return right.On != "" && f.rights.Allows(right, "")
}
