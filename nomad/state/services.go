package state

import (
	"iter"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/nomad/services/registry"
)

// ServiceKey are the instances of a service.
func ServiceKey(ns, name string) Key { return Key{TableServices, "service", rowKey(ns, name)} }

// ServicesOfJobKey are the instances of services that a job offers.
func ServicesOfJobKey(ns, job string) Key { return Key{TableServices, "job", rowKey(ns, job)} }

// ServicesOfAllocKey are the instances of services that an allocation offers.
func ServicesOfAllocKey(id string) Key { return Key{TableServices, "alloc", id} }

// ServiceInstance returns the instance of a service with the id, or nil.
func (t *Txn) ServiceInstance(id string) *api.ServiceRegistration { return services.get(t, id) }

// ServicesByName lists the instances of services of a namespace, or of all for "*", by namespace and name of the service.
// In one namespace it lists those whose names have the prefix.
func (t *Txn) ServicesByName(ns, prefix string) iter.Seq[*api.ServiceRegistration] {
	if ns == api.AllNamespaces {
		return services.grouped(t, "service", "")
	}
	return services.grouped(t, "service", rowKey(ns, prefix))
}

// ServiceSpan walks the instances of a service by id.
func (t *Txn) ServiceSpan(ns, name string) iter.Seq[*api.ServiceRegistration] {
	return services.list(t, "service", rowKey(ns, name))
}

// ServicesOfJob lists the instances of services that a job offers.
func (t *Txn) ServicesOfJob(ns, job string) iter.Seq[*api.ServiceRegistration] {
	return services.list(t, "job", rowKey(ns, job))
}

// ServicesOfAlloc lists the instances of services that an allocation offers.
func (t *Txn) ServicesOfAlloc(id string) iter.Seq[*api.ServiceRegistration] {
	return services.list(t, "alloc", id)
}

// DeleteServiceInstance deletes an instance and reports whether there was one. The next change of its allocation makes it again.
func (t *Txn) DeleteServiceInstance(id string) bool { return services.remove(t, t.ServiceInstance(id)) }

// registerServices makes the instances of services of an allocation those that it offers now; a is nil when it is deleted.
func (t *Txn) registerServices(old, a *api.Allocation) {
	var offered []*api.ServiceRegistration
	offers := old != nil && registry.Offers(old.Group())
	id := ""
	if a != nil && registry.Offers(a.Group()) {
		offers, offered = true, registry.Of(a, t.Node(a.NodeID))
	}
	if !offers {
		return
	}
	if a != nil {
		id = a.ID
	} else {
		id = old.ID
	}
	known := slices.Collect(t.ServicesOfAlloc(id))
	for _, row := range known {
		if !slices.ContainsFunc(offered, func(s *api.ServiceRegistration) bool { return s.ID == row.ID }) {
			services.remove(t, row)
		}
	}
	for _, s := range offered {
		at := slices.IndexFunc(known, func(row *api.ServiceRegistration) bool { return row.ID == s.ID })
		if at >= 0 && sameInstance(known[at], s) {
			continue
		}
		services.put(t, s)
	}
}

// sameInstance reports whether two instances of one id do not differ in what users see.
func sameInstance(a, b *api.ServiceRegistration) bool {
	return a.ServiceName == b.ServiceName && a.Address == b.Address && a.Port == b.Port && a.Datacenter == b.Datacenter && a.NodeID == b.NodeID && slices.Equal(a.Tags, b.Tags)
}
