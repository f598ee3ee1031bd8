//! Which workloads run where, in which order.

use std::time::Duration;

use crate::life::{Stage, tell};
use crate::operator::Choice;
use crate::plane::{Kind, Plane};
use crate::report::{Report, Round, Workload};
use crate::shapes::Shape;
use crate::{Arguments, Name, Planes, progress};

/// Runs everything that was asked for. What is done is in the report, also after an error.
pub(crate) async fn all(arguments: &Arguments, choice: &Choice, report: &mut Report) -> anyhow::Result<()> {
    let planes: &[Kind] = match arguments.plane {
        Planes::Real => &[Kind::Real],
        Planes::Embedded => &[Kind::Embedded],
        Planes::Both => &[Kind::Real, Kind::Embedded],
    };
    for kind in planes {
        for name in &arguments.workloads {
            if *name == Name::Large && *kind == Kind::Real && !arguments.large {
                continue;
            }
            // A fresh one for each: what the one before left in its store costs time.
            progress(&format!("{name:?} on the {kind:?} control plane"));
            let plane = Plane::start(*kind, arguments.nodes, !arguments.no_flush).await?;
            choice.install(&plane.client).await?;
            let stage = Stage {
                plane: &plane,
                operator: choice,
                shape: match name {
                    Name::Moe | Name::Scaling | Name::Churn => Shape::Moe,
                    Name::Groups | Name::Large => Shape::Groups,
                },
                limit: Duration::from_secs(arguments.limit),
                concurrency: arguments.concurrency,
            };
            let workload = one(&stage, *name, arguments).await?;
            report.workloads.push(workload);
            plane.stop().await;
        }
    }
    Ok(())
}

async fn one(stage: &Stage<'_>, name: Name, arguments: &Arguments) -> anyhow::Result<Workload> {
    let pods = match name {
        Name::Large => arguments.large_pods,
        Name::Churn => arguments.pods / 10,
        Name::Moe | Name::Groups | Name::Scaling => arguments.pods,
    };
    let replicas = (pods / stage.shape.pods()).max(2);
    let mut workload = Workload {
        name: format!("{name:?}").to_lowercase(),
        plane: stage.plane.kind,
        versions: stage.plane.versions.clone(),
        shape: stage.shape,
        replicas,
        pods: replicas * stage.shape.pods(),
        objects: None,
        created_ratio: None,
        ready_ratio: None,
        rounds: Vec::new(),
        phases: Vec::new(),
    };
    match name {
        Name::Moe | Name::Groups => beside_the_floor(stage, &mut workload, arguments.rounds).await?,
        Name::Large => once_beside_the_floor(stage, &mut workload).await?,
        Name::Scaling => scaling(stage, &mut workload).await?,
        Name::Churn => churn(stage, &mut workload, arguments.churn_rounds).await?,
    }
    Ok(workload)
}

/// Applied and deleted, in turns with the floor client; who begins changes from round to round. One life of the workload
/// goes before and is not counted: it tells the floor what to create, and an API server that has just started is slow, which
/// whoever comes first would pay for.
async fn beside_the_floor(stage: &Stage<'_>, workload: &mut Workload, rounds: usize) -> anyhow::Result<()> {
    let mut life = stage.begin("warm-up").await?;
    tell("warm-up, not counted", &life.apply(workload.replicas).await?);
    let bodies = life.bodies().await?;
    workload.objects = Some(bodies.len());
    tell("warm-up, not counted", &life.delete().await?);
    for number in 1..=rounds {
        let mut floor = None;
        if number % 2 == 0 {
            let measured = stage.floor(&format!("floor-{number}"), &bodies).await?;
            tell(&format!("round {number}"), &measured);
            floor = Some(measured);
        }
        let mut life = stage.begin(&format!("operator-{number}")).await?;
        let apply = life.apply(workload.replicas).await?;
        tell(&format!("round {number}"), &apply);
        let delete = life.delete().await?;
        tell(&format!("round {number}"), &delete);
        if floor.is_none() {
            let measured = stage.floor(&format!("floor-{number}"), &bodies).await?;
            tell(&format!("round {number}"), &measured);
            floor = Some(measured);
        }
        workload.rounds.push(Round { apply, delete, floor });
    }
    workload.created_ratio = Workload::ratio(&workload.rounds, "pods created");
    workload.ready_ratio = Workload::ratio(&workload.rounds, "pods ready");
    Ok(())
}

/// Applied and deleted once, then the floor: for what is too large to be done several times.
async fn once_beside_the_floor(stage: &Stage<'_>, workload: &mut Workload) -> anyhow::Result<()> {
    let mut life = stage.begin("operator").await?;
    let apply = life.apply(workload.replicas).await?;
    tell("once", &apply);
    let bodies = life.bodies().await?;
    workload.objects = Some(bodies.len());
    let delete = life.delete().await?;
    tell("once", &delete);
    let floor = stage.floor("floor", &bodies).await?;
    tell("once", &floor);
    workload.rounds.push(Round {
        apply,
        delete,
        floor: Some(floor),
    });
    workload.created_ratio = Workload::ratio(&workload.rounds, "pods created");
    workload.ready_ratio = Workload::ratio(&workload.rounds, "pods ready");
    Ok(())
}

async fn scaling(stage: &Stage<'_>, workload: &mut Workload) -> anyhow::Result<()> {
    let (half, full) = (workload.replicas / 2, workload.replicas);
    let mut life = stage.begin("scaling").await?;
    workload.phases.push(life.apply(half).await?);
    for replicas in [full, half, 0, half] {
        let measured = life.scale(replicas).await?;
        tell("scaling", &measured);
        workload.phases.push(measured);
    }
    workload.phases.push(life.delete().await?);
    Ok(())
}

async fn churn(stage: &Stage<'_>, workload: &mut Workload, rounds: usize) -> anyhow::Result<()> {
    let (half, full) = (workload.replicas / 2, workload.replicas);
    let mut life = stage.begin("churn").await?;
    workload.phases.push(life.apply(full).await?);
    for number in 1..=rounds {
        // One pod of every replica.
        let every = stage.shape.pods() as usize;
        for mut measured in [
            life.kill(every).await?,
            life.scale(half).await?,
            life.scale(full).await?,
        ] {
            measured.phase = format!("round {number}: {}", measured.phase);
            tell("churn", &measured);
            workload.phases.push(measured);
        }
    }
    workload.phases.push(life.delete().await?);
    Ok(())
}
