#!/bin/bash
# Tries ./dev VERB... in a bare Debian root that has git and Python only, as a stranger's machine would be. Needs root,
# debootstrap and the network. The root is kept, so that a second call goes on where the first ended.
#   tools/bare_debian.sh bookworm /tmp/bare setup test
# Settings of pip and certificates pass through; GX_BARE_BIND lists further folders to show inside, read-only.
set -euo pipefail

suite=$1 root=$2
shift 2
source=$(cd "$(dirname "$0")/.." && pwd)

if [ ! -e "$root/usr/bin/git" ]; then
  debootstrap --variant=minbase --include=git,python3,ca-certificates "$suite" "$root"
fi
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp -r /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/" 2>/dev/null || true
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
git -C "$source" bundle create -q "$root/tmp/graphex.bundle" HEAD

inside=(bash -c '
  set -euo pipefail
  mount -t proc proc "$ROOT/proc"
  mount --rbind /dev "$ROOT/dev"
  for folder in ${GX_BARE_BIND:-}; do
    mkdir -p "$ROOT$folder"
    mount --bind -o ro "$folder" "$ROOT$folder"
  done
  exec chroot "$ROOT" /bin/bash -c "
    set -euo pipefail
    cd /root
    [ -e graphex ] || git init -q -b main graphex
    cd graphex
    git fetch -q /tmp/graphex.bundle HEAD
    git reset -q --hard FETCH_HEAD
    for verb in $VERBS; do ./dev \$verb; done"')
# A mount namespace of its own: nothing stays mounted when it ends.
passed=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb ROOT="$root" VERBS="$*")
while IFS= read -r line; do passed+=("$line"); done < <(env | grep -E '^(PIP_|SSL_|CI=|GX_BARE_BIND=)' || true)
env -i "${passed[@]}" unshare --mount --propagation private "${inside[@]}"
