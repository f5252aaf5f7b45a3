# rooms.sh: how to work in a Debian of its own, made by mmdebstrap ("room"). Sourced after lib.sh, by bash scripts.
# shellcheck shell=bash

# Whatever runs in there ends with the caller, mounts included. Call it in a subshell.
apart() {
	exec setpriv --pdeathsig KILL unshare --mount --pid --ipc --fork --kill-child --propagation private "$@"
}

# The package sources of some releases, from the mirror that this machine uses itself.
sources() { # RELEASE...
	local key=/usr/share/keyrings/debian-archive-keyring.gpg mirror security release
	# shellcheck disable=SC2016 # apt expands
	mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' | sed -n 's/^Debian //p' | head -n 1)
	# shellcheck disable=SC2016
	security=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' | sed -n 's/^Debian-Security //p' | head -n 1)
	[ -n "$mirror" ] || die "this machine has no Debian package source"
	for release; do
		echo "deb [signed-by=$key] $mirror $release main"
		[[ "$release" != @(trixie|bookworm) ]] || [ -z "$security" ] || echo "deb [signed-by=$key] $security $release-security main"
	done
}

# Testing and experimental may be past the date until which they are valid, when nobody has touched them for
# a while. Signatures are checked all the same.
# shellcheck disable=SC2034 # the callers read it
apt_options='APT::Install-Recommends "false"; Acquire::Languages "none"; Acquire::Retries "5";
Acquire::Check-Valid-Until "false"; Acquire::Check-Date "false";'
