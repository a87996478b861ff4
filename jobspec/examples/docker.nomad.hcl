# A container that serves HTTP on a port of the node. The node needs a Docker engine.
#
#   nomad job run docker.nomad.hcl
job "site" {
  group "web" {
    network {
      port "http" {
        to = 80 # the port inside the container; that of the node is chosen
      }
    }

    task "server" {
      driver = "docker"

      config {
        image = "nginx:1.29"
        ports = ["http"]
      }

      resources {
        cpu    = 100 # MHz
        memory = 64  # MiB
      }
    }
  }
}
