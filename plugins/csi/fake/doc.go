// Package fake is a CSI driver for tests: it keeps volumes in memory, follows a fault script, and
// watches whether its caller keeps to the rules.
//
// A [Storage] is the provider and outlives drivers; each [Driver] is one plugin process on one node, served on
// a unix socket ([Driver.Serve]), on any listener ([Driver.ServeListener]) or by calls of functions
// ([Driver.Conn]). With Config.DataDir volumes are directories, and staging and publishing bind them on
// Config.Host, which may be one in memory. Nothing waits but by package time and channels, so that tests
// may play many nodes in virtual time.
//
// # What it plays
//
// A [Fault] names a call, and maybe a volume, node or how many calls to let pass. It returns any code, any
// text or any reply, quickly or slowly, before the work or after it; it hangs until the caller gives up, or
// crashes the plugin. [EveryFault] lists every code at every call in all four ways, [Nonsense] the replies that
// make no sense. Lines follow each other: an uncertain reply, then a final one, are two.
//
// The provider asks for secrets ([Storage.RequireSecrets]), which may be rotated while volumes are in use; its
// errors may quote those that it got. Drivers of one storage
// may offer different capabilities, change them while they run ([Driver.Change]), and be replaced by drivers
// of another type for the same node.
//
// # Rules
//
// [Storage.Violations] lists what callers did against the specification:
//   - two changing calls in flight for one volume, of whatever node or controller. Calls of different nodes for
//     a volume of many nodes, and calls that take a volume off one node while another node uses it, are no
//     violation: only a coordinator of all nodes could avoid them. [Storage.Overlaps] lists these too.
//   - a second attachment of a single-node volume, use before attaching, publishing before staging, writing
//     through an attachment or publication for readers, two writers of a single-writer volume,
//   - unstaging under a published target, a second staging path, detaching what is staged or published,
//     deleting what is in use, calls that the driver does not offer.
//
// [Storage.Use] is what the provider knows: where the volume is attached, staged and published. Nodes that the test cut off may be excused from rules about them, [Storage.Excuse].
package fake
