//! Values that the ranks of a job start with, prepared once before anything starts.

use std::ffi::{OsStr, OsString};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use crate::host::processors;
use crate::start::environment::{
    Link, Seat, Secret, Variables, fresh_job_id, fresh_secret, gives_a_place, own, segment_name,
    without_identity,
};
use crate::start::error::StartError;
use crate::start::job::Job;
use crate::start::node::Backend;
use crate::supervise::warden::Segment;

/// How many connections may wait to be accepted; the system may allow fewer.
const BACKLOG: i32 = 4096;
/// The default port of torchrun.
const USUAL_PORT: u16 = 29500;

/// Values that are new in every job.
#[derive(Debug)]
pub(super) struct Prepared {
    inherited: Variables,
    /// The inherited variables that every rank keeps.
    kept: Variables,
    id: String,
    secret: String,
    port: u16,
    /// The listener of rank 0, which inherits it. Bound before anything starts, so that no other program can take the port
    /// and no rank finds it closed.
    listener: Option<Arc<TcpListener>>,
    /// One processor per rank if the ranks are to be bound, else none.
    processors: Vec<usize>,
    /// The number of restarts so far, if the job may be restarted.
    restart: Option<usize>,
}

/// Everything that a rank would be started with.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RankPlan {
    /// The rank.
    pub rank: usize,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The variables it gets in addition to the inherited ones; a secret is replaced by `(redacted)`.
    pub variables: Variables,
    /// The inherited variables that it does not get.
    pub cleared: Vec<OsString>,
    /// The processor it is bound to.
    pub processor: Option<usize>,
}

impl Prepared {
    pub(super) fn new(job: &Job, restart: usize) -> Result<Self, StartError> {
        let random = "get random bytes from the system";
        let processors = if job.bind {
            let chosen = processors::choose(job.size);
            let chosen = chosen.map_err(StartError::setup("bind ranks to processors"))?;
            if chosen.len() < job.size {
                return Err(StartError::TooFewProcessors {
                    ranks: job.size,
                    processors: chosen.len(),
                });
            }
            chosen
        } else {
            Vec::new()
        };
        let listener = match (&job.node, job.backend) {
            (None, Backend::Tcp) => {
                Some(listen().map_err(StartError::setup("listen on 127.0.0.1"))?)
            }
            _ => None,
        };
        let port = match (&job.node, &listener) {
            (Some(node), _) => node.port,
            (None, Some(listener)) => port(listener).map_err(StartError::setup("find the port"))?,
            // No rank listens on this port; one that is free now is the best guess.
            (None, None) => listen()
                .and_then(|listener| port(&listener))
                .unwrap_or(USUAL_PORT),
        };
        let inherited = std::env::vars_os().collect();
        Ok(Self {
            kept: without_identity(&inherited),
            inherited,
            id: fresh_job_id().map_err(StartError::setup(random))?,
            secret: fresh_secret().map_err(StartError::setup(random))?,
            port,
            listener: listener.map(Arc::new),
            processors,
            restart: (job.max_restarts > 0).then_some(restart),
        })
    }

    /// Returns all variables of a rank, numbered on this machine.
    pub(super) fn variables(&self, job: &Job, local: usize) -> Variables {
        let mut variables = self.kept.clone();
        variables.extend(own(self.seat(job, local)));
        variables.extend(self.given(job, local));
        variables
    }

    /// Returns the value of `COBRE_JOB_ID` for the ranks.
    pub(super) fn id(&self, job: &Job) -> Option<String> {
        let variables = self.variables(job, 0);
        let id = variables.get(OsStr::new("COBRE_JOB_ID"))?;
        Some(id.to_string_lossy().into_owned())
    }

    /// Returns the name that the ranks may leave behind in shared memory.
    pub(super) fn segment(&self) -> Segment {
        Segment::new(&segment_name(&self.id))
    }

    /// Returns the listener if this rank inherits it.
    pub(super) fn listener(&self, local: usize) -> Option<Arc<TcpListener>> {
        self.listener.clone().filter(|_| local == 0)
    }

    /// Returns how many connections a rank holds: two to each other rank, if all ranks connect to it.
    pub(super) fn links(&self, job: &Job, local: usize) -> usize {
        let seat = self.seat(job, local);
        match seat.link {
            Link::Tcp { .. } if seat.rank == 0 => 2 * seat.size,
            _ => 0,
        }
    }

    /// Returns the processor that a rank is bound to.
    pub(super) fn processor(&self, local: usize) -> Option<usize> {
        self.processors.get(local).copied()
    }

    /// Returns the plan of a rank, for a dry run.
    pub(super) fn plan(&self, job: &Job, local: usize) -> RankPlan {
        let mut variables = own(self.seat(job, local));
        variables.extend(self.given(job, local));
        if let Some(secret) = variables.get_mut(OsStr::new("COBRE_TCP_SECRET")) {
            *secret = "(redacted)".into();
        }
        let cleared = self.inherited.keys();
        let cleared = cleared.filter(|name| gives_a_place(name) && !variables.contains_key(*name));
        let own_args = job.rank_args.get(&local).into_iter().flatten();
        let command = std::iter::once(&job.program)
            .chain(&job.args)
            .chain(own_args);
        RankPlan {
            rank: job.first_rank() + local,
            command: command.cloned().collect(),
            cleared: cleared.cloned().collect(),
            processor: self.processor(local),
            variables,
        }
    }

    /// Returns the count of restarts, and the variables that the owner of the job set for a rank.
    fn given(&self, job: &Job, local: usize) -> Variables {
        let mut given = Variables::new();
        if let Some(restart) = self.restart {
            given.insert("COBRE_RESTART".into(), restart.to_string().into());
        }
        given.extend(job.variables.clone());
        given.extend(job.rank_variables.get(&local).cloned().unwrap_or_default());
        given
    }

    fn seat<'a>(&'a self, job: &'a Job, local: usize) -> Seat<'a> {
        let mut seat = Seat::new(&self.id, local, job.size);
        seat.port = self.port;
        if let Some(node) = &job.node {
            seat.job = None;
            seat.rank = job.first_rank() + local;
            seat.size = node.nodes * job.size;
            seat.host = &node.coordinator;
            seat.link = Link::Tcp {
                secret: Secret::File(&node.secret_file),
                listener: None,
            };
        } else if job.backend == Backend::Tcp {
            seat.link = Link::Tcp {
                secret: Secret::Text(&self.secret),
                listener: self.listener(local).map(|listener| listener.as_raw_fd()),
            };
        }
        seat
    }
}

fn listen() -> io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    // Hundreds of ranks may connect at once. If this fails, the default backlog stays.
    let _ = rustix::net::listen(&listener, BACKLOG);
    Ok(listener)
}

fn port(listener: &TcpListener) -> io::Result<u16> {
    Ok(listener.local_addr()?.port())
}
