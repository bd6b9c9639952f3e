use ringfence_experiment::Experiment;
use ringfence_machine::fixtures;

use super::*;

// The text of each CPU's box, and whose colour it has.
fn boxes(roles: &str) -> Vec<(String, Option<String>)> {
    let text = format!(
        "schema = 2\nname = 'x'\nmetric = 'victim'\n{roles}[[arm]]\nname = 'alone'\nactive = ['victim']\n\
         [[arm]]\nname = 'beside'\nactive = ['victim', 'aggressor']\nbaseline = 'alone'\n"
    );
    let topology = Topology::read(&fixtures::vm_2cpu().root()).unwrap();
    let plan = Plan::new(&Experiment::parse(&text).unwrap(), &topology, None).unwrap();
    let drawn = drawing(&topology, &super::roles(&plan)).into_string();
    let of_box = |text: &str| {
        let attribute =
            text.split_once("data-role=\"").map(|(_, rest)| rest.split('"').next().unwrap().into());
        let inside: Vec<&str> = text.split("<span class=\"role\">").skip(1).collect();
        let names: Vec<&str> = inside.iter().map(|role| role.split('<').next().unwrap()).collect();
        (names.join(" "), attribute)
    };
    drawn.split("<div class=\"cpu").skip(1).map(of_box).collect()
}

fn role(name: &str, task: &str, cpus: &str) -> String {
    format!("[[role]]\nname = '{name}'\ntask = {task}\ncpus = '{cpus}'\n")
}

#[test]
fn whoever_shares_a_cpu_stands_there_together() {
    let alu = "{ workload = 'alu' }";
    let apart = boxes(&(role("victim", alu, "0") + &role("aggressor", alu, "1")));
    let one = |name: &str| (name.to_owned(), Some(name.to_owned()));
    assert_eq!(apart, [one("victim"), one("aggressor")]);
    let shared = boxes(&(role("victim", alu, "0") + &role("aggressor", alu, "0")));
    assert_eq!(shared, [("victim aggressor".into(), Some("other".into())), (String::new(), None)]);
}

#[test]
fn a_program_stands_on_all_its_cpus() {
    let program = "{ workload = 'command', run = 'x', unit = 'lines' }";
    let wide = boxes(&(role("victim", "{ workload = 'alu' }", "0") + &role("aggressor", program, "0-1")));
    assert_eq!(wide[0].0, "victim aggressor");
    assert_eq!(wide[1].0, "aggressor");
}

#[test]
fn a_probe_is_not_the_service_that_it_asks() {
    let probe = "{ workload = 'probe', ask = 'tcp://localhost:1', send = 'x' }";
    let asked = boxes(&(role("victim", probe, "0") + &role("aggressor", "{ workload = 'alu' }", "1")));
    assert_eq!(asked[0], ("probe of victim".into(), Some("other".into())));
}
