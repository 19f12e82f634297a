# Boots systemd as PID 1 over a throw-away view of the root file system; run by box.py in private namespaces.
# Arguments: the box's own folder, then pairs SOURCE TARGET of folders to show inside, read-only.
set -e
box=$1 root=$1/root
shift
mount --make-rprivate /
mount -t tmpfs tmpfs "$box/cow"
mkdir "$box/cow/up" "$box/cow/work"
mount -t overlay overlay -o "lowerdir=/,upperdir=$box/cow/up,workdir=$box/cow/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mount -t tmpfs tmpfs "$root/tmp" # the machine's own would be emptied by systemd-tmpfiles
for node in null zero full random urandom tty; do cp -a "/dev/$node" "$root/dev/$node"; done
ln -s /proc/self/fd "$root/dev/fd"
mkdir -p "$root/dev/shm" "$root/dev/pts" "$root/run/lock"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx" # without it systemd cannot give services a /dev of their own
while [ $# -gt 0 ]; do
    mkdir -p "$root$2"
    mount --bind "$1" "$root$2"
    mount -o remount,bind,ro "$root$2"
    shift 2
done
rm -f "$root"/etc/systemd/system/*.wants/* # what this machine starts is not ours to start
: >"$root/etc/fstab"                       # nor its disks ours to mount
mkdir "$root/machine"
cd "$root"
pivot_root . machine # not chroot, from where no user namespace can be made
umount --lazy /machine
rmdir /machine
mount --make-rshared / # as at a real boot; without it systemd loads no credentials
exec env -i container=box PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --log-target=journal --show-status=0 --unit=multi-user.target
