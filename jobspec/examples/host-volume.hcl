# A dynamic host volume: a directory on one node, made while the node runs.
#   nomad volume create volume.hcl
#   nomad volume status -type host
# Jobs of the namespace use it by its name, on its node:
#   volume "data" {
#     type   = "host"
#     source = "database"
#     sticky = true        # its replacements get the same volume
#   }

type      = "host"
name      = "database"
namespace = "default"

# mkdir makes a directory, which may grow until the disk is full. quota makes a file system of the size of the capacity.
# Other names are executables in host_volume_plugin_dir of the nodes.
plugin_id = "mkdir"

# Without these the servers choose one of the nodes that have the plugin.
# node_pool = "default"
# node_id   = "00000000-0000-0000-0000-000000000000"
# constraint {
#   attribute = "${attr.kernel.name}"
#   value     = "linux"
# }

# capacity_min = "1GiB"
# capacity_max = "10GiB"

# How jobs may use the volume. One that only one allocation may write to has single-node-single-writer.
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

# What plugins read. mkdir and quota know these three.
parameters {
  mode = "0755"
  # uid = "1000"
  # gid = "1000"
}
