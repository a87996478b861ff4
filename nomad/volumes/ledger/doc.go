// Package ledger is the only code that reads claims and attachments in a transaction, asks package
// claim what follows, and writes them back. Plan apply, client updates, node status changes and the
// commands of the volumes go through it, inside Apply.
//
// Each function first checks that the move is legal against the rows as they are (fault.Conflict
// when it is not, fault.NotFound when there is no row), so that late and doubled reports are refused
// and never merged, and settles what follows before it returns.
//
// Records hold what releasing needs: whether a controller must detach, the driver's ids of volume
// and node, and modes. Nothing is asked of the allocation or the plugin once the claim is taken, and of
// the volume's specs only the secrets as they are when a call is made.
//
// What excludes what belongs to the external volume, under whatever spec: [Gather] collects it, and all
// rules ask that.
//
// This package is the only writer of these fields: all of [api.VolumeClaim] and [api.VolumeAttachment]; of
// [api.Volume] the releases, former secrets and what one spec has from another; of [api.Node] the CSILimits, which are
// how many volumes fit for a while after a driver has refused one, and the StaleMounts, which are what may still be
// mounted there of evicted claims.
package ledger
