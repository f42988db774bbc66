# Sourced by scripts that download packages of Debian's testing suite without changing the system.

# Makes apt use the testing suite, with its state in the folder $1 and an empty list of installed
# packages, so that it downloads every dependency. Packages are downloaded to $1/archives.
use_debian_testing() {
    local scratch=$1 site
    mkdir -p "$scratch"/{lists/partial,archives/partial}
    touch "$scratch/status"
    site=$(apt-get indextargets 'Created-By: Packages' --format '$(REPO_URI)' | head -n 1)
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site testing main" \
        > "$scratch/sources.list"
    cat > "$scratch/apt.conf" <<END
Dir::State "$scratch";
Dir::State::status "$scratch/status";
Dir::Cache "$scratch";
Dir::Cache::archives "archives";
Dir::Etc::sourcelist "$scratch/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Sandbox::User "$(id -un)";
Acquire::Languages "none";
END
    export APT_CONFIG="$scratch/apt.conf"
    apt-get -qq update
}
