#!/bin/sh
# The README, followed to its end on a machine without root, kubectl and container runtimes: every command of its blocks
# but those of kubectl, in order, in a fresh copy of the repository.
#
#   sh tests/documentation/fresh.sh      # as root: as a new user of its own, who is removed again
set -eu

hidden="kubectl crun runc conmon podman docker containerd etcd"

follow() {
    # Runs as the user, in the copy. A command of the README is run by the same shell, so that exports hold.
    awk '/^```(console|sh)$/ {inside = $0; next} /^```$/ {inside = ""}
         inside == "```sh" {sub(/ +#.*/, ""); print}
         inside == "```console" && /^\$ / {print substr($0, 3)}' README.md | grep -v '^kubectl ' > "$HOME/commands"
    grep -q '^make demo$' "$HOME/commands" && grep -q '^cathedra delete$' "$HOME/commands"
    while read -r line; do
        printf '\n$ %s\n' "$line"
        eval "$line" < /dev/null
    done < "$HOME/commands"
    [ -z "$(pgrep -u "$(id -u)" -f cathedra || true)" ] || { echo "processes are left:"; pgrep -u "$(id -u)" -af cathedra; exit 1; }
    [ ! -e "$HOME/.local/state/cathedra" ] || { echo "files are left:"; find "$HOME/.local/state/cathedra"; exit 1; }
    echo "the README holds"
}

if [ "${1-}" = --follow ]; then
    follow
    exit
fi

[ "$(id -u)" -eq 0 ] || { echo "run this as root: it makes a user for the time of the test" >&2; exit 2; }
user="fresh$$"
useradd --create-home --shell /bin/sh "$user"
home=$(getent passwd "$user" | cut -d: -f6)
remove() {
    for process in $(pgrep -u "$user"); do
        kill -KILL "$process" || true
    done
    userdel --force --remove "$user" 2>/dev/null
}
trap remove EXIT
mkdir "$home/programs"
for directory in /bin /usr/bin /usr/local/bin; do
    ln -sf "$directory"/* "$home/programs/"
done
for program in $hidden; do
    rm -f "$home/programs/$program"
done
git -c safe.directory='*' archive --format=tar HEAD | (mkdir "$home/cathedra" && tar -x -C "$home/cathedra")
chown -R "$user:" "$home"
su "$user" -s /bin/sh -c "cd ~/cathedra && exec env -u KUBECONFIG -u CATHEDRA_DATA_DIR -u XDG_STATE_HOME -u TMPDIR -u VIRTUAL_ENV \
    PATH='$home/programs' sh tests/documentation/fresh.sh --follow"
