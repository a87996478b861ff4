# A volume of the plugin "hostpath". Create it with: nomad volume create volume.hcl
id        = "data"
name      = "data"
namespace = "default"
type      = "csi"
plugin_id = "hostpath"

# The provider's id of a volume that exists already: for "nomad volume register".
# external_id = "vol-23452345"

# Fill the new volume from a snapshot or from another volume.
# snapshot_id = "snap-12345"
# clone_id    = "vol-abcdef"

# KiB, MiB, GiB ... count by 1024; KB, MB, GB ... and K, M, G ... by 1000.
capacity_min = "10MiB"
capacity_max = "1GiB"

# Ways in which the volume may be used; at least one.
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

capability {
  access_mode     = "single-node-reader-only"
  attachment_mode = "file-system"
}

mount_options {
  # A file system is for plugins with disks; this one has directories.
  # fs_type   = "ext4"
  mount_flags = ["nodev"]
}

# Where the volume must and should be reachable from; the plugin's node says which keys there are.
# topology_request {
#   required {
#     topology { segments { "topology.example.com/zone" = "a" } }
#   }
#   preferred {
#     topology { segments { rack = "1" } }
#   }
# }

# What the plugin needs to know. Secrets are never shown again. In place of them, secrets_from names a variable of the
# volume's namespace whose items they are; it is read for each call of the plugin.
# secrets {
#   key = "value"
# }
# secrets_from = "nomad/jobs/hostpath"
# parameters {
#   tier = "fast"
# }
# context {
#   endpoint = "http://192.168.1.101:9425"
# }
